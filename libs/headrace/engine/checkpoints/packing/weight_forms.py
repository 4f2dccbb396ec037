"""Forms in which the products of a decoder take its weights."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class WeightForms:
    """Forms other than plain numbers that a backend multiplies."""

    head_bits: int | None = None
    """Bits to which a plain output head is rounded. None: it stays as it is."""
    keeps_blocks: bool = False
    """Whether weights in blocks of GGUF stay as their file has them."""


AS_READ = WeightForms()
