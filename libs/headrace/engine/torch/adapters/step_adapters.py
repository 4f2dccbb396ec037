"""Assignment of a step's tokens to adapters."""

from dataclasses import dataclass

from torch import Tensor

from headrace.engine.checkpoints.adapters.target_modules import Product
from headrace.engine.torch.adapters.adapted_linear import RowUpdate
from headrace.engine.torch.adapters.adapter import Adapter


@dataclass(frozen=True, slots=True)
class AdapterRows:
    """The tokens of all requests that chose one adapter."""

    adapter: Adapter
    rows: Tensor
    """Indices of the tokens in the step, int64, ascending."""


@dataclass(frozen=True, slots=True)
class StepAdapters:
    """The tokens of a step, grouped by adapter. At least one token has an adapter."""

    groups: tuple[AdapterRows, ...]
    """Tokens of each adapter, by their index in the step."""

    def updates(self, layer: int, product: Product) -> tuple[RowUpdate, ...]:
        """Collects the updates to one product of a layer."""
        found = [(group.rows, group.adapter.layers[layer].get(product)) for group in self.groups]
        return tuple(RowUpdate(rows, update) for rows, update in found if update is not None)
