"""Sizes of a layer's heads."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class HeadSizes:
    """Heads of one layer. All layers have as many query heads."""

    kv_head_count: int
    head_size: int
    rotary_size: int
    """Number of leading elements of a head that rotate with the position."""
