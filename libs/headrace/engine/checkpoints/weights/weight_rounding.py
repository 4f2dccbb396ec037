"""Precision that plain weights are rounded to while they are loaded."""

from dataclasses import dataclass

from headrace.engine.kernels.storage import Storage

GROUP_SIZES = (128, 64, 32)
"""Group sizes of weights rounded at load, in order of preference: the first that divides the input size is used."""
HEAD_BITS = 8
"""Bits of the output head, the most sensitive part."""


@dataclass(frozen=True, slots=True)
class WeightRounding:
    """Codes or numbers of fewer bits. By default weights stay as they are."""

    bits: int | None = None
    """Bits of codes, which groups of inputs share a scale for."""
    storage: Storage | None = None
    """Type of numbers, BF16 or F16."""


UNROUNDED = WeightRounding()
