"""Builds the parts of a decoder from a checkpoint's tensors, fusing products that have the same input."""

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
from headrace.engine.models.self_attention import SelfAttention
from headrace.engine.quantization.quantized_matrix import Weight, stack


class DecoderReader:
    """Reads each tensor once, under the names that Hugging Face checkpoints have for it."""

    def __init__(self, config: DecoderConfig, weights: WeightSource, dtype: torch.dtype, device: torch.device) -> None:
        self._config = config
        self._weights = weights
        self._dtype = dtype
        self._device = device
        self.parameter_count = 0

    def embedding(self) -> Tensor:
        return self._read("model.embed_tokens.weight", self._config.vocab_size, self._config.hidden_size)

    def head(self, embedding: Tensor) -> Linear:
        """Tied models have no tensor of their own for it."""
        if self._config.tied_embeddings:
            return build_linear(embedding)
        return build_linear(self._matrix("lm_head", *embedding.shape))

    def norm(self, name: str) -> RmsNorm:
        return RmsNorm(self._norm_weight(name, self._config.hidden_size), self._config.rms_norm_epsilon)

    def layer(self, index: int) -> DecoderLayer:
        prefix = f"model.layers.{index}"
        attention_norm = self.norm(f"{prefix}.input_layernorm")
        attention = self._attention(f"{prefix}.self_attn", self._config.windows[index])
        post_attention_norm = self.norm(f"{prefix}.post_attention_layernorm")
        mlp = self._feed_forward(prefix, index)
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

    def _attention(self, prefix: str, window: int | None) -> SelfAttention:
        config = self._config
        query_size, kv_size = config.head_count * config.head_size, config.kv_head_count * config.head_size
        sizes = {"q_proj": query_size, "k_proj": kv_size, "v_proj": kv_size}
        if config.fused_projections:
            sizes = {"qkv_proj": sum(sizes.values())}
        projections = {f"{prefix}.{name}": size for name, size in sizes.items()}
        return SelfAttention(
            qkv=self._linear(projections, config.hidden_size, config.qkv_bias),
            output=self._linear({f"{prefix}.o_proj": config.hidden_size}, query_size, config.output_bias),
            head_norm=self._head_norm(prefix) if config.query_key_norm else None,
            scoring=Scoring(config.attention_scale, config.attention_soft_cap),
            window=window,
            head_count=config.head_count,
            kv_head_count=config.kv_head_count,
            head_size=config.head_size,
        )

    def _head_norm(self, prefix: str) -> HeadNorm:
        """Query heads share one weight, key heads another."""
        config = self._config
        query, key = (self._norm_weight(f"{prefix}.{name}_norm", config.head_size) for name in "qk")
        weight = torch.cat([query.expand(config.head_count, -1), key.expand(config.kv_head_count, -1)])
        return HeadNorm(RmsNorm(weight, config.rms_norm_epsilon), len(weight))

    def _feed_forward(self, prefix: str, index: int) -> GatedMlp:
        experts = self._config.experts
        if experts is not None and index not in experts.dense_layers:
            return self._expert_mlp(f"{prefix}.{experts.module}", experts)
        gate_up = ("gate_up_proj",) if self._config.fused_projections else ("gate_proj", "up_proj")
        return self._mlp(f"{prefix}.mlp", gate_up, "down_proj", self._config.intermediate_size)

    def _expert_mlp(self, prefix: str, experts: ExpertConfig) -> ExpertMlp:
        *gate_up, down = experts.projections
        return ExpertMlp(
            router=self._linear({f"{prefix}.gate": experts.count}, self._config.hidden_size, has_bias=False),
            experts=[
                self._mlp(f"{prefix}.experts.{index}", tuple(gate_up), down, experts.intermediate_size)
                for index in range(experts.count)
            ],
            chosen_count=experts.chosen_count,
            normalizes_weights=experts.normalizes_weights,
        )

    def _mlp(self, prefix: str, gate_up: tuple[str, ...], down: str, inner: int) -> GatedMlp:
        """`gate_up` names the two projections, or both as one."""
        config = self._config
        sizes = {f"{prefix}.{name}": 2 * inner // len(gate_up) for name in gate_up}
        down_sizes = {f"{prefix}.{down}": config.hidden_size}
        return build_gated_mlp(
            self._matrices(sizes, config.hidden_size),
            self._matrices(down_sizes, inner),
            self._biases(sizes) if config.mlp_bias else None,
            self._biases(down_sizes) if config.mlp_bias else None,
            config.activation,
        )

    def _linear(self, out_sizes: dict[str, int], in_size: int, has_bias: bool) -> Linear:
        """One product for several modules with the same input, in the order given."""
        return build_linear(self._matrices(out_sizes, in_size), self._biases(out_sizes) if has_bias else None)

    def _matrices(self, out_sizes: dict[str, int], in_size: int) -> Weight:
        return stack([self._matrix(name, size, in_size) for name, size in out_sizes.items()])

    def _biases(self, sizes: dict[str, int]) -> Tensor:
        return torch.cat([self._read(f"{name}.bias", size) for name, size in sizes.items()])

    def _norm_weight(self, name: str, size: int) -> Tensor:
        """In fp32 where an offset is added, which the checkpoint's precision would swallow."""
        weight = self._read(f"{name}.weight", size)
        return weight if self._config.norm_offset == 0 else weight.float() + self._config.norm_offset

    def _matrix(self, name: str, out_size: int, in_size: int) -> Weight:
        """The weight [out, in] of a projection, in whatever form the checkpoint has it."""
        self.parameter_count += out_size * in_size
        return self._weights.matrix(name, (out_size, in_size), self._dtype, self._device)

    def _read(self, name: str, *shape: int) -> Tensor:
        tensor = self._weights.read(name, shape, self._dtype, self._device)
        self.parameter_count += tensor.numel()
        return tensor
