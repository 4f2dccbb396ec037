"""Attention through torch with many tokens per call: the reference, and the way of GPUs without kernels."""

from collections.abc import Sequence

import torch
from torch import Tensor

from headrace.engine.step.step_arrays import StepArrays
from headrace.engine.torch.attention.attention_layout import StepLayout
from headrace.engine.torch.attention.gather import AttentionGroup, attend
from headrace.engine.torch.attention.layer_attention import torch_layers
from headrace.engine.torch.attention.paged_attention import HeadShape, LayerAttention
from headrace.engine.torch.attention.scoring import Scoring
from headrace.engine.torch.kv.kv_cache import KvCache
from headrace.engine.torch.layers.rotary import RotaryTable, Rotation


class GatheredAttention:
    """Implements the Protocol of `paged_attention.py` with gathered keys and values."""

    def __init__(
        self, heads: HeadShape, layers: Sequence[LayerAttention], cache: KvCache, device: torch.device
    ) -> None:
        self.block_count = cache.zero_block
        self._heads = heads
        self._cache = self.block_store = cache
        self._device = device
        self._scoring = Scoring(heads.scale, heads.soft_cap)
        self._layers = torch_layers(heads, layers, cache.dtype, device)
        self._layout = StepLayout(heads, cache, device)
        self._write_rows = torch.empty(0)
        self._rotations: dict[RotaryTable, Rotation] = {}
        self._groups: dict[int | None, list[AttentionGroup]] = {}

    @property
    def byte_count(self) -> int:
        return self._cache.byte_count

    def begin(self, arrays: StepArrays) -> None:
        positions = torch.from_numpy(arrays.positions).to(self._device)
        slots = torch.from_numpy(arrays.slots(self._cache.block_size))
        self._write_rows = self._cache.token_rows(slots).to(self._device)
        self._rotations = {rotary: rotary.at(positions) for rotary in {layer.rotary for layer in self._layers}}
        spans, windows = arrays.split(), {layer.window for layer in self._layers}
        self._groups = {window: self._layout.groups(spans, window) for window in windows}

    def attend(self, layer: int, projected: Tensor) -> Tensor:
        settings, kv_layer = self._layers[layer], self._cache.layers[layer]
        rotated = settings.turn(projected, self._rotations[settings.rotary])
        kv_layer.write(self._write_rows, rotated[:, self._heads.head_count :])
        queries = rotated[:, : self._heads.head_count]
        return attend(queries, kv_layer, self._groups[settings.window], self._scoring, settings.sinks)

    def clear(self, blocks: list[int]) -> None:
        self._cache.clear(blocks)

    def release(self) -> None:
        self._cache.release()

    def allocate(self) -> None:
        self._cache.allocate()
