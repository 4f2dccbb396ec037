"""The Protocol of matrix products with weights."""

from typing import Protocol

from torch import Tensor


class Linear(Protocol):
    def __call__(self, inputs: Tensor) -> Tensor:
        """Maps [rows, in] to [rows, out]."""
        ...

    def add_to_residual(self, inputs: Tensor, residual: Tensor) -> Tensor:
        """Computes the product plus `residual` [rows, out]."""
        ...
