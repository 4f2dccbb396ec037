"""Tensors of a checkpoint as stored, checked for what no quantizer can work with."""

from typing import Protocol

import torch
from torch import Tensor

from headrace.errors.tree import InvalidCheckpoint


class RawTensors(Protocol):
    """The named tensors of a checkpoint, unconverted."""

    def __contains__(self, name: str) -> bool: ...

    def raw(self, name: str) -> Tensor:
        """Reads a tensor unconverted. Raises InvalidCheckpoint if it is missing or unreadable."""
        ...


def take_finite(source: RawTensors, name: str) -> Tensor:
    """Reads one tensor of finite floating-point numbers, unconverted. Raises InvalidCheckpoint naming it."""
    tensor = source.raw(name)
    if not tensor.is_floating_point() or not torch.isfinite(tensor).all():
        raise InvalidCheckpoint(f"tensor {name} holds values that are not finite floating-point numbers")
    return tensor
