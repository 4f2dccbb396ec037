"""A product with a weight to which adapters add, each for its own rows."""

from dataclasses import dataclass

from torch import Tensor

from headrace.engine.torch.adapters.low_rank import LowRankUpdate
from headrace.engine.torch.layers.linear import Linear


@dataclass(frozen=True, slots=True)
class RowUpdate:
    """Update that is added to some rows."""

    rows: Tensor
    """Indices of the rows of one adapter, int64 [rows], each once."""
    update: LowRankUpdate


@dataclass(frozen=True, slots=True)
class AdaptedLinear:
    """The product of all rows with the shared weight, then the low-rank products of those that have an adapter."""

    linear: Linear
    row_updates: tuple[RowUpdate, ...]

    def __call__(self, inputs: Tensor) -> Tensor:
        return self._update(self.linear(inputs), inputs)

    def add_to_residual(self, inputs: Tensor, residual: Tensor) -> Tensor:
        return self._update(self.linear.add_to_residual(inputs, residual), inputs)

    def _update(self, outputs: Tensor, inputs: Tensor) -> Tensor:
        for group in self.row_updates:
            outputs.index_add_(0, group.rows, group.update(inputs.index_select(0, group.rows)))
        return outputs
