"""The layers of a decoder with packed weights, with each sum in the launch of what comes after it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

from torch import Tensor

from headrace.engine.checkpoints.facts.activation import Activation
from headrace.engine.gpu.attention.triton_attention import TritonAttention
from headrace.engine.gpu.operators.triton_linear import TritonLinear
from headrace.engine.gpu.operators.triton_norm import TritonNorm
from headrace.engine.torch.attention.paged_attention import PagedAttention
from headrace.engine.torch.decoder.decoder_layer import DecoderLayer, PreNormLayer
from headrace.engine.torch.layers.gated_mlp import GatedMlp
from headrace.engine.triton.split_sum import sum_splits


@dataclass(frozen=True, slots=True)
class PackedLayer:
    """Parts of a layer that normalizes the input of each block."""

    index: int
    attention_norm: TritonNorm
    qkv: TritonLinear
    output: TritonLinear
    mlp_norm: TritonNorm
    gate_up: TritonLinear
    down: TritonLinear

    @classmethod
    def of(cls, layer: DecoderLayer) -> Self | None:
        """Takes a layer apart. None: not all of its parts are kernels that leave sums to others."""
        if not isinstance(layer, PreNormLayer) or not isinstance(layer.mlp, GatedMlp):
            return None
        norms = layer.attention_norm, layer.mlp_norm
        products = layer.attention.qkv, layer.attention.output, layer.mlp.gate_up, layer.mlp.down
        attention_norm, mlp_norm = (each if isinstance(each, TritonNorm) else None for each in norms)
        qkv, output, gate_up, down = (each if isinstance(each, TritonLinear) else None for each in products)
        if attention_norm is None or mlp_norm is None:
            return None
        if qkv is None or output is None or gate_up is None or down is None or gate_up.has_bias:
            return None
        return cls(layer.attention.index, attention_norm, qkv, output, mlp_norm, gate_up, down)


class FusedLayers:
    """All layers of a decoder in eight launches each, or nine where a gated product has split inputs: four products,
    of which the third activates its gates; rotation and storage of what the first gives; attention; and two norms,
    with the sums before them. The bits are those of the layers one by one."""

    def __init__(self, layers: Sequence[PackedLayer], activation: Activation) -> None:
        """Fuses at least one layer."""
        self._layers = layers
        self._activation = activation

    def takes(self, hidden: Tensor, attention: PagedAttention) -> bool:
        """Whether a step has few enough rows for products that leave their sums to others."""
        return isinstance(attention, TritonAttention) and self._layers[0].qkv.is_tiled(len(hidden))

    def __call__(self, hidden: Tensor, attention: PagedAttention) -> Tensor:
        """Maps [tokens, hidden], of which there is at least one, to the same shape. Writes the tokens' keys and values
        to the cache of `attention`."""
        if not isinstance(attention, TritonAttention):
            raise TypeError(f"layers cannot be fused around {type(attention).__name__}")
        normalized = self._layers[0].attention_norm(hidden)
        for layer, after in zip(self._layers, (*self._layers[1:], None), strict=True):
            attended = attention.attend_rows(layer.index, layer.qkv.split(normalized))
            hidden, normalized = layer.mlp_norm.add(layer.output.split(attended), hidden)
            rows = layer.down.split(layer.gate_up.gated(normalized, self._activation))
            if after is None:
                return sum_splits(rows, hidden)
            hidden, normalized = after.attention_norm.add(rows, hidden)
        return hidden


def fuse_layers(layers: Sequence[DecoderLayer], activation: Activation) -> FusedLayers | None:
    """Fuses the layers of a decoder. None: they run one by one, because one of them has parts of other kinds."""
    packed = [part for layer in layers if (part := PackedLayer.of(layer)) is not None]
    return FusedLayers(packed, activation) if packed and len(packed) == len(layers) else None
