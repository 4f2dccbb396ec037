"""Normalizes and rotates one layer's queries and keys before attention, through torch."""

from collections.abc import Sequence

import torch
from torch import Tensor

from headrace.engine.torch.attention.paged_attention import HeadShape, LayerAttention
from headrace.engine.torch.layers.head_norm import HeadNorm
from headrace.engine.torch.layers.rms_norm import RmsNorm
from headrace.engine.torch.layers.rotary import RotaryTable, Rotation, rotate


class TorchLayer:
    """Norms and angles of one layer."""

    def __init__(self, heads: HeadShape, layer: LayerAttention, rotary: RotaryTable) -> None:
        self.window = layer.window
        self.rotary = rotary
        self.sinks = None if layer.sinks is None else layer.sinks.view(heads.kv_head_count, -1)
        """Scores [KV heads, query heads of each] that softmax counts beside those of keys."""
        self._norm = _head_norm(heads, layer)
        self._norms_rotated = heads.norms_rotated
        self._shape = (-1, heads.head_count + 2 * heads.kv_head_count, heads.head_size)

    def turn(self, projected: Tensor, rotation: Rotation) -> Tensor:
        """Splits [tokens, heads x head] into [tokens, heads, head]. Rotates queries and keys, and normalizes them if
        the layer does so."""
        heads = projected.view(self._shape)
        if self._norm is None:
            return rotate(heads, rotation)
        return self._norm(rotate(heads, rotation)) if self._norms_rotated else rotate(self._norm(heads), rotation)


def torch_layers(
    heads: HeadShape, layers: Sequence[LayerAttention], dtype: torch.dtype, device: torch.device
) -> list[TorchLayer]:
    """Makes the layers of a model. Layers with the same angles share one table."""
    tables: dict[int, RotaryTable] = {}
    for layer in layers:
        if id(layer.angles) not in tables:
            tables[id(layer.angles)] = RotaryTable(layer.angles, (heads.head_count, heads.kv_head_count), dtype, device)
    return [TorchLayer(heads, layer, tables[id(layer.angles)]) for layer in layers]


def _head_norm(heads: HeadShape, layer: LayerAttention) -> HeadNorm | None:
    """Makes the norm of a layer's heads, if it has one. All query heads share one weight, all key heads another."""
    if layer.query_norm is None or layer.key_norm is None:
        return None
    query, key = layer.query_norm.expand(heads.head_count, -1), layer.key_norm.expand(heads.kv_head_count, -1)
    weight = torch.cat([query, key])
    return HeadNorm(RmsNorm(weight, heads.norm_epsilon), len(weight))
