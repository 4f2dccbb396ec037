"""Parts of a layer that all run on the kernels for GPUs."""

from dataclasses import dataclass
from typing import Self

from headrace.engine.gpu.operators.triton_linear import TritonLinear
from headrace.engine.gpu.operators.triton_norm import TritonNorm
from headrace.engine.torch.decoder.decoder_layer import DecoderLayer, PreNormLayer
from headrace.engine.torch.decoder.self_attention import SelfAttention
from headrace.engine.torch.layers.gated_mlp import GatedMlp


@dataclass(frozen=True, slots=True)
class LayerKernels:
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
        match layer:
            case PreNormLayer(
                TritonNorm() as attention_norm,
                SelfAttention(index, TritonLinear() as qkv, TritonLinear() as output),
                TritonNorm() as mlp_norm,
                GatedMlp(TritonLinear() as gate_up, TritonLinear() as down),
            ) if not gate_up.has_bias:
                return cls(index, attention_norm, qkv, output, mlp_norm, gate_up, down)
        return None
