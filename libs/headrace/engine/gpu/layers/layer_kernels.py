"""Parts of a layer that all run on the kernels for GPUs."""

from dataclasses import dataclass
from typing import Self

from headrace.engine.checkpoints.facts.activation import Activation
from headrace.engine.gpu.layers.gated_kernels import GatedKernels
from headrace.engine.gpu.operators.grouped_experts import GroupedExperts
from headrace.engine.gpu.operators.triton_linear import TritonLinear
from headrace.engine.gpu.operators.triton_norm import TritonNorm
from headrace.engine.torch.decoder.decoder_layer import DecoderLayer, PreNormLayer
from headrace.engine.torch.decoder.self_attention import SelfAttention
from headrace.engine.torch.layers.gated_mlp import GatedMlp, Mlp


@dataclass(frozen=True, slots=True)
class LayerKernels:
    """Parts of a layer that normalizes the input of each block."""

    index: int
    attention_norm: TritonNorm
    qkv: TritonLinear
    output: TritonLinear
    mlp_norm: TritonNorm
    mlp: GatedKernels | GroupedExperts

    @classmethod
    def of(cls, layer: DecoderLayer, activation: Activation) -> Self | None:
        """Takes a layer apart whose gates are activated so. None: not all of its parts are kernels that leave
        sums to others."""
        match layer:
            case PreNormLayer(
                TritonNorm() as attention_norm,
                SelfAttention(index, TritonLinear() as qkv, TritonLinear() as output),
                TritonNorm() as mlp_norm,
                mlp,
            ) if (kernels := _mlp_kernels(mlp, activation)) is not None:
                return cls(index, attention_norm, qkv, output, mlp_norm, kernels)
        return None


def _mlp_kernels(mlp: Mlp, activation: Activation) -> GatedKernels | GroupedExperts | None:
    match mlp:
        case GroupedExperts():
            return mlp
        case GatedMlp(TritonLinear(has_bias=False) as gate_up, TritonLinear() as down):
            return GatedKernels(gate_up, down, activation)
    return None
