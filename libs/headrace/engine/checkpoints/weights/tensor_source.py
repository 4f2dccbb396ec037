"""Source of raw tensors for format readers, with the checks that all formats need."""

from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from headrace.errors.tree import InvalidCheckpoint

Array = NDArray[Any]


class TensorSource(Protocol):
    """The named tensors of a checkpoint: integers as stored, floating-point numbers of 16 and 32 bits as fp32, and
    those of 8 bits as their bytes."""

    def __contains__(self, name: str) -> bool: ...

    def array(self, name: str) -> Array:
        """Reads a tensor. Raises InvalidCheckpoint if it is missing or unreadable."""
        ...


def take(source: TensorSource, name: str, shape: tuple[int, ...], *dtypes: type[np.generic]) -> Array:
    """Reads one tensor with the given shape and one of the given dtypes. Raises InvalidCheckpoint naming it."""
    array = source.array(name)
    if array.shape != shape:
        raise InvalidCheckpoint(f"tensor {name} has shape {array.shape}; its format and config.json imply {shape}")
    if array.dtype not in dtypes:
        wanted = " or ".join(np.dtype(dtype).name for dtype in dtypes)
        raise InvalidCheckpoint(f"tensor {name} holds {array.dtype}; expected {wanted}")
    return array


def take_finite(source: TensorSource, name: str, shape: tuple[int, ...]) -> NDArray[np.float32]:
    """Reads numbers as float32. Raises InvalidCheckpoint if one is not finite."""
    numbers: NDArray[np.float32] = take(source, name, shape, np.float32)
    if not np.isfinite(numbers).all():
        raise InvalidCheckpoint(f"tensor {name} holds scales that are not finite numbers")
    return numbers


def take_scales(source: TensorSource, name: str, shape: tuple[int, ...]) -> NDArray[np.float32]:
    """Reads scales as float32, rounded to 16 significant bits (to nearest, ties to even): fp16 and bf16 have no more,
    and the kernels keep no more. Raises InvalidCheckpoint if one is not finite."""
    bits = np.ascontiguousarray(take_finite(source, name, shape)).view(np.uint32)
    rounded: NDArray[np.float32] = (bits + 127 + (bits >> 8 & 1) & ~np.uint32(255)).view(np.float32)
    return rounded


def check_divisible(name: str, what: str, size: int, divisor: int) -> None:
    if size % divisor:
        raise InvalidCheckpoint(f"module {name}: {what} is {size}, which is not a multiple of {divisor}")
