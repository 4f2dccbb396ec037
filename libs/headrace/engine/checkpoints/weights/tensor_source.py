"""Source of raw tensors for format readers, with the checks that all formats need."""

from typing import Protocol

import torch
from torch import Tensor

from headrace.errors.tree import InvalidCheckpoint


class TensorSource(Protocol):
    """The named tensors of a checkpoint, unconverted."""

    def __contains__(self, name: str) -> bool: ...

    def raw(self, name: str) -> Tensor:
        """Reads a tensor unconverted. Raises InvalidCheckpoint if it is missing or unreadable."""
        ...


def take(source: TensorSource, name: str, shape: tuple[int, ...], *dtypes: torch.dtype) -> Tensor:
    """Reads one tensor with the given shape and one of the given dtypes. Raises InvalidCheckpoint naming it."""
    tensor = source.raw(name)
    if tuple(tensor.shape) != shape:
        raise InvalidCheckpoint(
            f"tensor {name} has shape {tuple(tensor.shape)}; its format and config.json imply {shape}"
        )
    if tensor.dtype not in dtypes:
        wanted = " or ".join(str(dtype).removeprefix("torch.") for dtype in dtypes)
        raise InvalidCheckpoint(f"tensor {name} holds {str(tensor.dtype).removeprefix('torch.')}; expected {wanted}")
    return tensor


def take_scales(source: TensorSource, name: str, shape: tuple[int, ...]) -> Tensor:
    """Reads scales as float32. Raises InvalidCheckpoint if one is not finite."""
    scales = take(source, name, shape, torch.float16, torch.bfloat16, torch.float32).float()
    if not torch.isfinite(scales).all():
        raise InvalidCheckpoint(f"tensor {name} holds scales that are not finite numbers")
    return scales


def check_divisible(name: str, what: str, size: int, divisor: int) -> None:
    if size % divisor:
        raise InvalidCheckpoint(f"module {name}: {what} is {size}, which is not a multiple of {divisor}")


def take_finite(source: TensorSource, name: str) -> Tensor:
    """Reads one tensor of finite floating-point numbers, unconverted. Raises InvalidCheckpoint naming it."""
    tensor = source.raw(name)
    if not tensor.is_floating_point() or not torch.isfinite(tensor).all():
        raise InvalidCheckpoint(f"tensor {name} holds values that are not finite floating-point numbers")
    return tensor
