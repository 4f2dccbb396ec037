"""Rounds fp32 numbers to 16 bits, as IEEE 754 does by default: to nearest, ties to even."""

import numpy as np
from numpy.typing import NDArray

from headrace.engine.kernels.storage import Storage

Floats = NDArray[np.float32]
PIECE = 1 << 22
"""Numbers rounded at a time: what a piece takes meanwhile is small beside a model."""


def round_numbers(numbers: Floats, storage: Storage) -> NDArray[np.generic]:
    """Rounds numbers of any shape to BF16, as int16, which numpy has, or to F16. Raises OverflowError if a finite
    number is beyond the range of the type."""
    rounded = np.empty(numbers.shape, np.int16 if storage is Storage.BF16 else np.float16)
    flat, target = np.ascontiguousarray(numbers).reshape(-1), rounded.reshape(-1)
    for first in range(0, flat.size, PIECE):
        piece = slice(first, first + PIECE)
        target[piece] = _to_bf16(flat[piece]) if storage is Storage.BF16 else _to_f16(flat[piece])
    return rounded


def _to_bf16(numbers: Floats) -> NDArray[np.int16]:
    bits = numbers.view(np.uint32)
    rounded = (bits + np.uint32(0x7FFF) + (bits >> np.uint32(16) & np.uint32(1))) & np.uint32(0xFFFF0000)
    # The addition would make numbers of some NaNs.
    rounded = np.where(np.isnan(numbers), bits | np.uint32(0x400000), rounded)
    _refuse_overflow(numbers, rounded.view(np.float32), "bfloat16")
    return (rounded >> np.uint32(16)).astype(np.uint16).view(np.int16)


def _to_f16(numbers: Floats) -> NDArray[np.float16]:
    with np.errstate(over="ignore"):
        rounded = numbers.astype(np.float16)
    _refuse_overflow(numbers, rounded, "float16")
    return rounded


def _refuse_overflow(numbers: Floats, rounded: NDArray[np.floating], name: str) -> None:
    beyond = np.isinf(rounded) & np.isfinite(numbers)
    if beyond.any():
        raise OverflowError(f"{numbers[beyond][0]:g} is beyond the range of {name}")
