"""Attention of a model whose layers have heads of several sizes, or read the keys and values of others."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from headrace.engine.kv.joined_block_store import JoinedBlockStore
from headrace.engine.step.step_arrays import StepArrays
from headrace.engine.torch.attention.paged_attention import PagedAttention


@dataclass(frozen=True, slots=True)
class LayerPlace:
    """Place of a layer's keys and values."""

    part: int
    index: int
    """Index of the layer, within its part, that computed them."""
    query_size: int
    """Elements of all query heads."""
    source: int
    """Index of that layer in the model."""


class LayeredAttention:
    """Implements the Protocol of `paged_attention.py` with several others, each over the same block numbers.

    A layer that has no keys of its own gives queries alone. What its source projected is stored once more, with the
    same bits in the same place, so that no kernel has to know of it.
    """

    def __init__(self, parts: Sequence[PagedAttention], places: Sequence[LayerPlace]) -> None:
        """`places` are those of all layers of the model."""
        self.block_count = parts[0].block_count
        self.block_store = JoinedBlockStore([part.block_store for part in parts if hasattr(part, "block_store")])
        self._parts = parts
        self._places = places
        self._lenders = {place.source for index, place in enumerate(places) if place.source != index}
        self._lent: dict[int, Tensor] = {}

    @property
    def byte_count(self) -> int:
        return sum(part.byte_count for part in self._parts)

    def begin(self, arrays: StepArrays) -> None:
        self._lent = {}
        for part in self._parts:
            part.begin(arrays)

    def attend(self, layer: int, projected: Tensor) -> Tensor:
        place = self._places[layer]
        if place.source != layer:
            projected = torch.cat([projected, self._lent[place.source]], dim=1)
        elif layer in self._lenders:
            self._lent[layer] = projected[:, place.query_size :].clone()
        return self._parts[place.part].attend(place.index, projected)

    def clear(self, blocks: list[int]) -> None:
        for part in self._parts:
            part.clear(blocks)

    def release(self) -> None:
        self._lent = {}
        for part in self._parts:
            part.release()

    def allocate(self) -> None:
        for part in self._parts:
            part.allocate()
