"""The Llama family of decoders (Touvron et al., 2023): pre-norm, rotary positions, grouped queries, SwiGLU."""

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from headrace.engine.attention.gather import AttentionGroup, attend
from headrace.engine.attention.kv_cache import KvCache, KvLayer
from headrace.engine.layers.gated_mlp import GatedMlp, build_gated_mlp
from headrace.engine.layers.linear import Linear, build_linear
from headrace.engine.layers.rms_norm import RmsNorm
from headrace.engine.layers.rotary import RotaryTable, rotate
from headrace.engine.loader.model_config import ModelConfig
from headrace.engine.loader.weights import Weights


@dataclass(frozen=True, slots=True)
class StepTensors:
    """The tokens of one step, of all sequences one after the other."""

    token_ids: Tensor
    """int64 [tokens]."""
    positions: Tensor
    """int64 [tokens]."""
    write_rows: Tensor
    """Where their keys and values go, see `KvCache.token_rows`."""
    groups: list[AttentionGroup]
    logit_rows: Tensor
    """int64 [rows]: the tokens whose logits are wanted."""


@dataclass(frozen=True, slots=True)
class LlamaLayer:
    """One decoder layer."""

    attention_norm: RmsNorm
    qkv: Linear
    """Query, key and value projections as one product."""
    output: Linear
    mlp_norm: RmsNorm
    mlp: GatedMlp
    head_count: int
    kv_head_count: int
    head_size: int

    def __call__(self, hidden: Tensor, rotation: tuple[Tensor, Tensor], kv_layer: KvLayer, step: StepTensors) -> Tensor:
        """[tokens, hidden] to the same shape. Writes the tokens' keys and values first."""
        attended = self._attend(self.attention_norm(hidden), rotation, kv_layer, step)
        hidden = self.output.add(attended, hidden)
        return self.mlp(self.mlp_norm(hidden), hidden)

    def _attend(self, inputs: Tensor, rotation: tuple[Tensor, Tensor], kv_layer: KvLayer, step: StepTensors) -> Tensor:
        heads = self.qkv(inputs).view(-1, self.head_count + 2 * self.kv_head_count, 2, self.head_size // 2)
        rotated = rotate(heads, *rotation).flatten(-2)
        kv_layer.write(step.write_rows, rotated[:, self.head_count :])
        return attend(rotated[:, : self.head_count], kv_layer, step.groups)


class Llama:
    """A decoder with its weights. Holds no state of any request: that is in the KV cache."""

    def __init__(self, config: ModelConfig, max_len: int, weights: Weights, dtype: torch.dtype, device: torch.device):
        self._reader = _LlamaReader(config, weights, dtype, device)
        self._embedding = self._reader.embedding()
        self._layers = [self._reader.layer(index) for index in range(config.layer_count)]
        self._norm = self._reader.norm("model.norm.weight")
        self._head = self._reader.head(self._embedding)
        self._rotary = RotaryTable(config, max_len, dtype, device)

    @property
    def parameter_count(self) -> int:
        return self._reader.parameter_count

    def __call__(self, step: StepTensors, cache: KvCache) -> Tensor:
        """Logits [rows, vocabulary] in fp32 for `step.logit_rows`. Fills the cache for all of the step's tokens."""
        hidden = functional.embedding(step.token_ids, self._embedding)
        rotation = self._rotary.at(step.positions)
        for layer, kv_layer in zip(self._layers, cache.layers, strict=True):
            hidden = layer(hidden, rotation, kv_layer, step)
        return self._head(self._norm(hidden.index_select(0, step.logit_rows))).float()


class _LlamaReader:
    """Builds the parts of a Llama from a checkpoint's tensors, fusing products that have the same input."""

    def __init__(self, config: ModelConfig, weights: Weights, dtype: torch.dtype, device: torch.device) -> None:
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
        return RmsNorm(self._read(name, self._config.hidden_size), self._config.rms_norm_epsilon)

    def layer(self, index: int) -> LlamaLayer:
        config, prefix = self._config, f"model.layers.{index}"
        query_size = config.head_count * config.head_size
        kv_size = config.kv_head_count * config.head_size
        attention = f"{prefix}.self_attn"
        projections = {
            f"{attention}.q_proj": query_size,
            f"{attention}.k_proj": kv_size,
            f"{attention}.v_proj": kv_size,
        }
        return LlamaLayer(
            attention_norm=self.norm(f"{prefix}.input_layernorm.weight"),
            qkv=self._linear(projections, config.hidden_size, config.attention_bias),
            output=self._linear({f"{attention}.o_proj": config.hidden_size}, query_size, config.attention_bias),
            mlp_norm=self.norm(f"{prefix}.post_attention_layernorm.weight"),
            mlp=self._mlp(f"{prefix}.mlp"),
            head_count=config.head_count,
            kv_head_count=config.kv_head_count,
            head_size=config.head_size,
        )

    def _mlp(self, prefix: str) -> GatedMlp:
        outer, inner = self._config.hidden_size, self._config.intermediate_size
        names = [f"{prefix}.{name}_proj" for name in ("gate", "up", "down")]
        gate, up = (self._matrix(name, inner, outer) for name in names[:2])
        down = self._matrix(names[2], outer, inner)
        if not self._config.mlp_bias:
            return build_gated_mlp(gate, up, down, None)
        gate_bias, up_bias = (self._read(f"{name}.bias", inner) for name in names[:2])
        return build_gated_mlp(gate, up, down, (gate_bias, up_bias, self._read(f"{names[2]}.bias", outer)))

    def _linear(self, out_sizes: dict[str, int], in_size: int, has_bias: bool) -> Linear:
        """One product for several modules with the same input, in the order given."""
        weight = torch.cat([self._matrix(name, size, in_size) for name, size in out_sizes.items()])
        bias = torch.cat([self._read(f"{name}.bias", size) for name, size in out_sizes.items()]) if has_bias else None
        return build_linear(weight, bias)

    def _matrix(self, name: str, out_size: int, in_size: int) -> Tensor:
        """The weight [out, in] of a projection, in whatever form the checkpoint has it."""
        self.parameter_count += out_size * in_size
        return self._weights.matrix(name, (out_size, in_size), self._dtype, self._device)

    def _read(self, name: str, *shape: int) -> Tensor:
        tensor = self._weights.read(name, shape, self._dtype, self._device)
        self.parameter_count += tensor.numel()
        return tensor
