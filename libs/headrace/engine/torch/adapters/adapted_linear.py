"""A product with a weight, plus the updates of adapters, each for its own rows."""

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from torch import Tensor

from headrace.engine.torch.adapters.low_rank import LowRankUpdate
from headrace.engine.torch.layers.linear import Linear


@dataclass(frozen=True, slots=True)
class RowUpdate:
    """Update added to some of the rows."""

    rows: Tensor
    """Indices of the rows of one adapter, int64 [rows], without duplicates."""
    update: LowRankUpdate


@runtime_checkable
class Adaptable(Protocol):
    """Product that adds the updates of adapters where it must: several processes share it."""

    def adapted(self, updates: tuple[RowUpdate, ...]) -> Linear:
        """Returns the same product with updates."""
        ...


@dataclass(frozen=True, slots=True)
class AdaptedLinear:
    """Multiplies all rows by the shared weight, then adds the low-rank products of the rows that have an adapter."""

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
