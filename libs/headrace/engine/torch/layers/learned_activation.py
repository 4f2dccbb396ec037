"""The activation xIELU, whose two slopes each layer learns (Huang and Schlag, 2024), as in Apertus."""

from dataclasses import dataclass
from typing import Self

import torch
from torch import Tensor
from torch.nn import functional


@dataclass(frozen=True, slots=True)
class LearnedActivation:
    """Computes positive * x^2 + beta * x above zero, and negative * (exp(min(x, edge)) - 1 - x) + beta * x below."""

    positive: Tensor
    """Weight [1] of the square."""
    negative: Tensor
    beta: Tensor
    edge: Tensor
    """Largest exponent, slightly below zero."""

    @classmethod
    def of(cls, numbers: dict[str, Tensor]) -> Self:
        """Takes the numbers of a checkpoint, which has the logarithms of slopes: see `learned_numbers`."""
        slope, beta = functional.softplus, numbers["beta"]
        return cls(slope(numbers["alpha_p"]), beta + slope(numbers["alpha_n"]), beta, numbers["eps"])

    def __call__(self, inputs: Tensor) -> Tensor:
        """Maps [rows, size] to the same shape, row by row: the exponential of a vector unit may have other bits than
        that of the numbers behind its last whole register."""
        return torch.cat([self._row(row[None]) for row in inputs]) if len(inputs) else inputs

    def _row(self, row: Tensor) -> Tensor:
        row = row.clone()
        below = (torch.expm1(torch.minimum(row, self.edge)) - row) * self.negative
        return torch.where(row > 0, self.positive * row * row, below) + self.beta * row
