"""GPTQ (Frantar et al., 2022): rounds column by column and adjusts the remaining columns to compensate for each error.

The objective is the error of the outputs on calibration data. The second moments X^T X of the inputs determine how the
other inputs best compensate for an error in one.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from headrace.engine.checkpoints.weights.quantized_matrix import QuantizedMatrix
from headrace.engine.checkpoints.weights.round_to_nearest import choose_grid, round_to_grid

DAMPING = 0.01
"""Share of the mean diagonal added to the diagonal, so that rare inputs do not make the problem singular."""
COLUMN_BLOCK = 128
"""Number of columns whose updates to the rest are applied in one batch."""


@dataclass(slots=True)
class InputMoments:
    """The second moments of a module's inputs, accumulated batch by batch."""

    total: Tensor
    """Sum of x x^T over all inputs, float64 [in, in]."""
    row_count: int = 0

    @classmethod
    def empty(cls, in_size: int) -> "InputMoments":
        return cls(torch.zeros(in_size, in_size, dtype=torch.float64))

    def observe(self, inputs: Tensor) -> None:
        """Adds `inputs` [rows, in]."""
        rows = inputs.double()
        self.total += rows.T @ rows
        self.row_count += len(rows)

    def mean(self) -> Tensor:
        """Returns the moments per row, float64 [in, in]. 0 without any inputs."""
        return self.total / max(1, self.row_count)


def quantize(weight: Tensor, moments: InputMoments, bits: int, group_size: int, symmetric: bool) -> QuantizedMatrix:
    """Quantizes `weight` [out, in]. Deterministic. Rounds inputs that never occurred to nearest."""
    remaining = weight.double().clone()
    factor = _inverse_factor(moments.total)
    in_size = weight.shape[1]
    codes = torch.empty(weight.shape, dtype=torch.uint8)
    grid_scales: list[Tensor] = []
    grid_zeros: list[Tensor] = []
    for start in range(0, in_size, COLUMN_BLOCK):
        end = min(start + COLUMN_BLOCK, in_size)
        errors = torch.empty(weight.shape[0], end - start, dtype=torch.float64)
        for column in range(start, end):
            if column % group_size == 0:
                group = remaining[:, column : column + group_size].float()
                scales, zeros = choose_grid(group, bits, group.shape[1], symmetric)
                grid_scales.append(scales)
                grid_zeros.append(zeros)
            value = remaining[:, column]
            scale, zero = grid_scales[-1][:, 0].double(), grid_zeros[-1][:, 0].double()
            codes[:, column] = round_to_grid(value, scale, zero, bits)
            error = (value - (codes[:, column].double() - zero) * scale) / factor[column, column]
            remaining[:, column:end] -= error[:, None] * factor[column, column:end]
            errors[:, column - start] = error
        remaining[:, end:] -= errors @ factor[start:end, end:]
    scales, zeros = torch.cat(grid_scales, 1), torch.cat(grid_zeros, 1)
    return QuantizedMatrix(codes, scales, zeros.to(torch.uint8), bits, group_size)


def _inverse_factor(moments: Tensor) -> Tensor:
    """Returns the upper Cholesky factor of the damped moments' inverse: row i holds how column i's error spreads."""
    damped = moments.clone()
    diagonal = damped.diagonal()
    diagonal[diagonal == 0] = 1
    diagonal += DAMPING * diagonal.mean()
    inverse = torch.cholesky_inverse(torch.linalg.cholesky(damped))
    factor: Tensor = torch.linalg.cholesky(inverse, upper=True)
    return factor
