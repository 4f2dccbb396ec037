"""A residual of low rank beside attention (LAuReL, Menghani et al., 2024)."""

from dataclasses import dataclass

from torch import Tensor

from headrace.engine.torch.layers.linear import Linear
from headrace.engine.torch.operators.operators import RowNorm


@dataclass(frozen=True, slots=True)
class LowRankResidual:
    down: Linear
    up: Linear
    norm: RowNorm

    def __call__(self, inputs: Tensor) -> Tensor:
        """Maps [rows, hidden] to the same shape."""
        return inputs + self.norm(self.up(self.down(inputs)))
