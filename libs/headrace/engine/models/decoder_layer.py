"""One layer of a decoder: attention and a feed-forward block, each with norms and a residual."""

from dataclasses import dataclass
from typing import Protocol

from torch import Tensor

from headrace.engine.attention.kv_cache import KvLayer
from headrace.engine.layers.gated_mlp import GatedMlp
from headrace.engine.layers.rms_norm import RmsNorm
from headrace.engine.layers.rotary import Rotation
from headrace.engine.models.self_attention import SelfAttention
from headrace.engine.models.step_tensors import StepTensors


class DecoderLayer(Protocol):
    def __call__(self, hidden: Tensor, rotation: Rotation, kv_layer: KvLayer, step: StepTensors) -> Tensor:
        """[tokens, hidden] to the same shape. Writes the tokens' keys and values to `kv_layer`."""
        ...


@dataclass(frozen=True, slots=True)
class PreNormLayer:
    """Inputs are normalised (Xiong et al., 2020)."""

    attention_norm: RmsNorm
    attention: SelfAttention
    mlp_norm: RmsNorm
    mlp: GatedMlp

    def __call__(self, hidden: Tensor, rotation: Rotation, kv_layer: KvLayer, step: StepTensors) -> Tensor:
        hidden = self.attention.add(self.attention_norm(hidden), hidden, rotation, kv_layer, step)
        return self.mlp.add(self.mlp_norm(hidden), hidden)


@dataclass(frozen=True, slots=True)
class SandwichNormLayer:
    """Inputs are normalised, and outputs before they join the residual (Ding et al., 2021), as in Gemma 2."""

    attention_norm: RmsNorm
    attention: SelfAttention
    post_attention_norm: RmsNorm
    mlp_norm: RmsNorm
    mlp: GatedMlp
    post_mlp_norm: RmsNorm

    def __call__(self, hidden: Tensor, rotation: Rotation, kv_layer: KvLayer, step: StepTensors) -> Tensor:
        attended = self.attention(self.attention_norm(hidden), rotation, kv_layer, step)
        hidden = hidden + self.post_attention_norm(attended)
        return hidden + self.post_mlp_norm(self.mlp(self.mlp_norm(hidden)))
