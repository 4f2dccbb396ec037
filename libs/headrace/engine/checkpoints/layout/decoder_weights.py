"""The tensors of a decoder, by their names in Hugging Face checkpoints. Each is read once.

Projections that share an input come as one matrix: query, key and value; gate and up.
"""

import math
from dataclasses import dataclass
from typing import Generic, TypeVar

from headrace.engine.checkpoints.facts.decoder_config import DecoderConfig
from headrace.engine.checkpoints.weights.model_tensors import ModelTensors

ArrayT = TypeVar("ArrayT")
WeightT = TypeVar("WeightT")


@dataclass(frozen=True, slots=True)
class Projection(Generic[ArrayT, WeightT]):
    """A matrix [out, in] and its bias [out], if it has one."""

    weight: WeightT
    bias: ArrayT | None = None


class DecoderWeights(Generic[ArrayT, WeightT]):
    """Reads the tensors that a DecoderConfig calls for, in the arrays of torch or numpy. Raises InvalidCheckpoint if
    they do not match it."""

    def __init__(self, config: DecoderConfig, tensors: ModelTensors[ArrayT, WeightT]) -> None:
        self._config = config
        self._tensors = tensors
        self.parameter_count = 0

    def embedding(self) -> ArrayT:
        return self._read("model.embed_tokens.weight", self._config.vocabulary_size, self._config.hidden_size)

    def embedding_matrix(self) -> WeightT:
        """Reads the embedding as products take it, for checkpoints that have it in blocks."""
        return self._matrix("model.embed_tokens", self._config.vocabulary_size, self._config.hidden_size)

    def head(self) -> Projection[ArrayT, WeightT]:
        """Reads the output head. Tied models have no separate tensor for it."""
        return Projection(self._matrix("lm_head", self._config.vocabulary_size, self._config.hidden_size))

    def norm(self, name: str, size: int) -> ArrayT:
        """Reads the weight of a norm, in fp32 if an offset is added: the checkpoint's precision would lose it."""
        weight = self._read(f"{name}.weight", size)
        offset = self._config.norm_offset
        return weight if offset == 0 else self._tensors.raised(weight, offset)

    def qkv(self, index: int) -> Projection[ArrayT, WeightT]:
        config, prefix = self._config, f"model.layers.{index}.self_attn"
        query_size, kv_size = config.head_count * config.head_size, config.kv_head_count * config.head_size
        sizes = {"q_proj": query_size, "k_proj": kv_size, "v_proj": kv_size}
        if config.fused_projections:
            sizes = {"qkv_proj": sum(sizes.values())}
        return self.projection(
            {f"{prefix}.{name}": size for name, size in sizes.items()}, config.hidden_size, has_bias=config.qkv_bias
        )

    def attention_output(self, index: int) -> Projection[ArrayT, WeightT]:
        config = self._config
        sizes = {f"model.layers.{index}.self_attn.o_proj": config.hidden_size}
        return self.projection(sizes, config.head_count * config.head_size, has_bias=config.output_bias)

    def gate_up(self, index: int) -> Projection[ArrayT, WeightT]:
        names = ("gate_up_proj",) if self._config.fused_projections else ("gate_proj", "up_proj")
        return self.gate_up_of(f"model.layers.{index}.mlp", names, self._config.intermediate_size)

    def down(self, index: int) -> Projection[ArrayT, WeightT]:
        return self.down_of(f"model.layers.{index}.mlp", "down_proj", self._config.intermediate_size)

    def gate_up_of(self, prefix: str, names: tuple[str, ...], inner: int) -> Projection[ArrayT, WeightT]:
        """Reads gate and up projections as one matrix. `names` are the two projections, or one fused projection."""
        sizes = {f"{prefix}.{name}": 2 * inner // len(names) for name in names}
        return self.projection(sizes, self._config.hidden_size, has_bias=self._config.mlp_bias)

    def down_of(self, prefix: str, name: str, inner: int) -> Projection[ArrayT, WeightT]:
        sizes = {f"{prefix}.{name}": self._config.hidden_size}
        return self.projection(sizes, inner, has_bias=self._config.mlp_bias)

    def projection(self, out_sizes: dict[str, int], in_size: int, *, has_bias: bool) -> Projection[ArrayT, WeightT]:
        """Reads several modules that share an input as one matrix, in the given order."""
        weight = self._tensors.stack([self._matrix(name, size, in_size) for name, size in out_sizes.items()])
        if not has_bias:
            return Projection(weight)
        biases = [self._read(f"{name}.bias", size) for name, size in out_sizes.items()]
        return Projection(weight, self._tensors.join(biases))

    def _matrix(self, name: str, out_size: int, in_size: int) -> WeightT:
        """Reads a matrix in whatever form the checkpoint stores it."""
        self.parameter_count += out_size * in_size
        return self._tensors.matrix(name, (out_size, in_size))

    def _read(self, name: str, *shape: int) -> ArrayT:
        self.parameter_count += math.prod(shape)
        return self._tensors.read(name, shape)
