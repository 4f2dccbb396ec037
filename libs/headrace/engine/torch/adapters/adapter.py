"""A low-rank adapter, ready to be added to a decoder's products."""

from dataclasses import dataclass
from typing import Literal

from headrace.engine.torch.adapters.low_rank import LowRankUpdate

Product = Literal["qkv", "output", "gate_up", "down"]
"""The products of a decoder's layer."""

LayerUpdates = dict[Product, LowRankUpdate]
"""Updates that an adapter makes to the products of one layer."""


@dataclass(frozen=True, slots=True)
class Adapter:
    """Low-rank updates of all layers. Holds no state of any request."""

    name: str
    layers: tuple[LayerUpdates, ...]
    """Updates of each layer of the base model, in order."""
