"""Which tokens of a step are whose."""

from dataclasses import dataclass

from torch import Tensor

from headrace.engine.adapters.adapter import Adapter, Product
from headrace.engine.layers.adapted_linear import RowUpdate


@dataclass(frozen=True, slots=True)
class AdapterRows:
    """The tokens of all requests that chose one adapter."""

    adapter: Adapter
    rows: Tensor
    """int64, ascending."""


@dataclass(frozen=True, slots=True)
class StepAdapters:
    """The tokens of a step, told apart by adapter. There is at least one that has an adapter."""

    groups: tuple[AdapterRows, ...]
    """By the index of each token in the step."""
    mlp_groups: tuple[AdapterRows, ...]
    """Of the adapters that change feed-forward blocks, by the place of each token in `mlp_rows`."""
    mlp_rows: Tensor
    """int64: the tokens of `mlp_groups`, one group after the other."""
    other_rows: Tensor
    """int64: the tokens whose feed-forward blocks are the base model's, in all layers."""


def updates_of(groups: tuple[AdapterRows, ...], layer: int, product: Product) -> tuple[RowUpdate, ...]:
    """What is added to one product of a layer."""
    found = [(group.rows, group.adapter.layers[layer].get(product)) for group in groups]
    return tuple(RowUpdate(rows, update) for rows, update in found if update is not None)
