"""The layers of a decoder with packed weights, with each sum in the launch of what comes after it."""

from collections.abc import Sequence

from torch import Tensor

from headrace.engine.checkpoints.facts.activation import Activation
from headrace.engine.gpu.attention.triton_attention import TritonAttention
from headrace.engine.gpu.layers.layer_kernels import LayerKernels
from headrace.engine.torch.attention.paged_attention import PagedAttention
from headrace.engine.torch.decoder.decoder_layer import DecoderLayer
from headrace.engine.triton.split_sum import sum_splits


class FusedLayers:
    """All layers of a decoder in eight launches each, or nine where a gated product has split inputs: four products,
    of which the third activates its gates; rotation and storage of what the first gives; attention; and two norms,
    with the sums before them. A mixture of experts is routed by torch, and sorts its rows in a launch more. The bits
    are those of the layers one by one."""

    def __init__(self, layers: Sequence[LayerKernels]) -> None:
        """Fuses at least one layer."""
        self._layers = layers

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
            rows = layer.mlp.split(normalized)
            if after is None:
                return sum_splits(rows, hidden)
            hidden, normalized = after.attention_norm.add(rows, hidden)
        return hidden


def fuse_layers(layers: Sequence[DecoderLayer], activation: Activation) -> FusedLayers | None:
    """Fuses the layers of a decoder. None: they run one by one, because one of them has parts of other kinds."""
    packed = [part for layer in layers if (part := LayerKernels.of(layer, activation)) is not None]
    return FusedLayers(packed) if packed and len(packed) == len(layers) else None
