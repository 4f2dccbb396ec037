"""A linear layer that computes one row at a time."""

from collections.abc import Callable

import torch
from torch import Tensor


class SingleRowLinear:
    """A product computed for each row alone. See `SingleRowOperators`."""

    def __init__(self, product: Callable[[Tensor], Tensor]) -> None:
        self._product = product

    def __call__(self, inputs: Tensor) -> Tensor:
        return row_by_row(self._product, inputs)

    def add_to_residual(self, inputs: Tensor, residual: Tensor) -> Tensor:
        return self(inputs).add_(residual)


def row_by_row(operation: Callable[[Tensor], Tensor], inputs: Tensor) -> Tensor:
    """Applies `operation` on [1, size] to each row of `inputs`, which has at least one."""
    return torch.cat([operation(row.clone()[None]) for row in inputs])
