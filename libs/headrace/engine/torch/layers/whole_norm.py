"""Normalization of all query heads, and of all key heads, as one vector each, as in OLMo 2 (OLMo team, 2024)."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from headrace.engine.torch.layers.linear import Linear


@dataclass(frozen=True, slots=True)
class WholeNormLinear:
    """Query, key and value projections as one product, whose queries and keys are normalized."""

    linear: Linear
    query_norm: Callable[[Tensor], Tensor]
    """Norm of [rows, queries]."""
    key_norm: Callable[[Tensor], Tensor]
    query_size: int
    """Elements of all query heads."""
    key_size: int

    def __call__(self, inputs: Tensor) -> Tensor:
        """Maps [rows, hidden] to [rows, queries, keys and values]."""
        projected = self.linear(inputs)
        sizes = [self.query_size, self.key_size, projected.shape[1] - self.query_size - self.key_size]
        query, key, value = torch.split(projected, sizes, dim=1)
        return torch.cat([self.query_norm(query.contiguous()), self.key_norm(key.contiguous()), value], dim=1)

    def add_to_residual(self, inputs: Tensor, residual: Tensor) -> Tensor:
        return self(inputs).add_(residual)
