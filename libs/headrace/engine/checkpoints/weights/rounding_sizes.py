"""Sizes that rounding at load keeps to."""

GROUP_SIZES = (128, 64, 32)
"""Group sizes, in order of preference: the first that divides the input size is used."""
HEAD_BITS = 8
"""Bits of the output head, the most sensitive part."""
