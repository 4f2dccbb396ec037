"""A low-rank adapter, ready to be added to a decoder's products."""

from dataclasses import dataclass

from headrace.engine.checkpoints.adapters.target_modules import Product
from headrace.engine.torch.adapters.low_rank import LowRankUpdate

LayerUpdates = dict[Product, LowRankUpdate]
"""Updates that an adapter adds to the products of one layer."""


@dataclass(frozen=True, slots=True)
class Adapter:
    """Low-rank updates of all layers. Holds no request state."""

    name: str
    layers: tuple[LayerUpdates, ...]
    """Updates of each layer of the base model, in order."""
