"""Builds the parts of a decoder from a checkpoint's tensors."""

import torch
from torch import Tensor

from headrace.engine.attention.gather import Scoring
from headrace.engine.layers.expert_mlp import ExpertMlp
from headrace.engine.layers.gated_mlp import GatedMlp, build_gated_mlp
from headrace.engine.layers.head_norm import HeadNorm
from headrace.engine.layers.linear import Linear, build_linear
from headrace.engine.layers.rms_norm import RmsNorm
from headrace.engine.loader.weight_source import WeightSource
from headrace.engine.models.decoder_config import DecoderConfig, ExpertConfig
from headrace.engine.models.decoder_layer import DecoderLayer, PreNormLayer, SandwichNormLayer
from headrace.engine.models.decoder_weights import DecoderWeights, Projection
from headrace.engine.models.self_attention import SelfAttention


class DecoderReader:
    """Reads each tensor once. Raises InvalidCheckpoint where they do not suit."""

    def __init__(self, config: DecoderConfig, weights: WeightSource, dtype: torch.dtype, device: torch.device) -> None:
        self._config = config
        self._weights = DecoderWeights(config, weights, dtype, device)

    @property
    def parameter_count(self) -> int:
        return self._weights.parameter_count

    def embedding(self) -> Tensor:
        return self._weights.embedding()

    def head(self, embedding: Tensor) -> Linear:
        """Tied models use their embedding for it."""
        return build_linear(embedding) if self._config.tied_embeddings else _linear(self._weights.head())

    def norm(self, name: str) -> RmsNorm:
        return RmsNorm(self._weights.norm(name, self._config.hidden_size), self._config.rms_norm_epsilon)

    def layer(self, index: int) -> DecoderLayer:
        prefix = f"model.layers.{index}"
        attention_norm = self.norm(f"{prefix}.input_layernorm")
        attention = self._attention(index)
        post_attention_norm = self.norm(f"{prefix}.post_attention_layernorm")
        mlp = self._feed_forward(index)
        if not self._config.post_norms:
            return PreNormLayer(attention_norm, attention, mlp_norm=post_attention_norm, mlp=mlp)
        return SandwichNormLayer(
            attention_norm,
            attention,
            post_attention_norm,
            mlp_norm=self.norm(f"{prefix}.pre_feedforward_layernorm"),
            mlp=mlp,
            post_mlp_norm=self.norm(f"{prefix}.post_feedforward_layernorm"),
        )

    def _attention(self, index: int) -> SelfAttention:
        config = self._config
        return SelfAttention(
            qkv=_linear(self._weights.qkv(index)),
            output=_linear(self._weights.attention_output(index)),
            head_norm=self._head_norm(f"model.layers.{index}.self_attn") if config.query_key_norm else None,
            scoring=Scoring(config.attention_scale, config.attention_soft_cap),
            window=config.windows[index],
            head_count=config.head_count,
            kv_head_count=config.kv_head_count,
            head_size=config.head_size,
        )

    def _head_norm(self, prefix: str) -> HeadNorm:
        """Query heads share one weight, key heads another."""
        config = self._config
        query, key = (self._weights.norm(f"{prefix}.{name}_norm", config.head_size) for name in "qk")
        weight = torch.cat([query.expand(config.head_count, -1), key.expand(config.kv_head_count, -1)])
        return HeadNorm(RmsNorm(weight, config.rms_norm_epsilon), len(weight))

    def _feed_forward(self, index: int) -> GatedMlp:
        experts = self._config.experts
        if experts is not None and index not in experts.dense_layers:
            return self._expert_mlp(f"model.layers.{index}.{experts.module}", experts)
        return self._mlp(self._weights.gate_up(index), self._weights.down(index))

    def _expert_mlp(self, prefix: str, experts: ExpertConfig) -> ExpertMlp:
        *gate_up, down = experts.projections
        router = {f"{prefix}.gate": experts.count}
        names = [f"{prefix}.experts.{index}" for index in range(experts.count)]
        inner = experts.intermediate_size
        return ExpertMlp(
            router=_linear(self._weights.projection(router, self._config.hidden_size, has_bias=False)),
            experts=[
                self._mlp(
                    self._weights.gate_up_of(name, tuple(gate_up), inner), self._weights.down_of(name, down, inner)
                )
                for name in names
            ],
            chosen_count=experts.chosen_count,
            normalizes_weights=experts.normalizes_weights,
        )

    def _mlp(self, gate_up: Projection, down: Projection) -> GatedMlp:
        return build_gated_mlp(gate_up.weight, down.weight, gate_up.bias, down.bias, self._config.activation)


def _linear(projection: Projection) -> Linear:
    return build_linear(projection.weight, projection.bias)
