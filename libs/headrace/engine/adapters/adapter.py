"""A low-rank adapter, ready to be added to a decoder's products."""

from dataclasses import dataclass
from typing import Literal

from headrace.engine.layers.low_rank import LowRankUpdate

Product = Literal["qkv", "output", "gate_up", "down"]
"""The products of a decoder's layer."""

LayerUpdates = dict[Product, LowRankUpdate]
"""What an adapter adds to each product of one layer."""


@dataclass(frozen=True, slots=True)
class Adapter:
    """Holds no state of any request."""

    name: str
    layers: tuple[LayerUpdates, ...]
    """One for each layer of the base model."""
