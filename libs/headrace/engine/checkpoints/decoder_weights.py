"""The tensors of a decoder, by their names in Hugging Face checkpoints. Each is read once.

Projections that share an input come as one matrix: query, key and value; gate and up.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from headrace.engine.checkpoints.facts.decoder_config import DecoderConfig
from headrace.engine.checkpoints.weight_source import WeightSource
from headrace.engine.checkpoints.weights.quantized_matrix import Weight, stack


@dataclass(frozen=True, slots=True)
class Projection:
    """A matrix [out, in] and its bias [out], if it has one."""

    weight: Weight
    bias: Tensor | None = None


class DecoderWeights:
    """Reads the tensors that a DecoderConfig calls for. Raises InvalidCheckpoint if they do not match it."""

    def __init__(self, config: DecoderConfig, source: WeightSource, dtype: torch.dtype, device: torch.device) -> None:
        self._config = config
        self._source = source
        self._dtype = dtype
        self._device = device
        self.parameter_count = 0

    def embedding(self) -> Tensor:
        return self._read("model.embed_tokens.weight", self._config.vocabulary_size, self._config.hidden_size)

    def head(self) -> Projection:
        """Reads the output head. Tied models have no separate tensor for it."""
        return Projection(self._matrix("lm_head", self._config.vocabulary_size, self._config.hidden_size))

    def norm(self, name: str, size: int) -> Tensor:
        """Reads the weight of a norm, in fp32 if an offset is added: the checkpoint's precision would lose it."""
        weight = self._read(f"{name}.weight", size)
        return weight if self._config.norm_offset == 0 else weight.float() + self._config.norm_offset

    def qkv(self, index: int) -> Projection:
        config, prefix = self._config, f"model.layers.{index}.self_attn"
        query_size, kv_size = config.head_count * config.head_size, config.kv_head_count * config.head_size
        sizes = {"q_proj": query_size, "k_proj": kv_size, "v_proj": kv_size}
        if config.fused_projections:
            sizes = {"qkv_proj": sum(sizes.values())}
        return self.projection(
            {f"{prefix}.{name}": size for name, size in sizes.items()}, config.hidden_size, has_bias=config.qkv_bias
        )

    def attention_output(self, index: int) -> Projection:
        config = self._config
        sizes = {f"model.layers.{index}.self_attn.o_proj": config.hidden_size}
        return self.projection(sizes, config.head_count * config.head_size, has_bias=config.output_bias)

    def gate_up(self, index: int) -> Projection:
        names = ("gate_up_proj",) if self._config.fused_projections else ("gate_proj", "up_proj")
        return self.gate_up_of(f"model.layers.{index}.mlp", names, self._config.intermediate_size)

    def down(self, index: int) -> Projection:
        return self.down_of(f"model.layers.{index}.mlp", "down_proj", self._config.intermediate_size)

    def gate_up_of(self, prefix: str, names: tuple[str, ...], inner: int) -> Projection:
        """Reads gate and up projections as one matrix. `names` are the two projections, or one fused projection."""
        sizes = {f"{prefix}.{name}": 2 * inner // len(names) for name in names}
        return self.projection(sizes, self._config.hidden_size, has_bias=self._config.mlp_bias)

    def down_of(self, prefix: str, name: str, inner: int) -> Projection:
        sizes = {f"{prefix}.{name}": self._config.hidden_size}
        return self.projection(sizes, inner, has_bias=self._config.mlp_bias)

    def projection(self, out_sizes: dict[str, int], in_size: int, *, has_bias: bool) -> Projection:
        """Reads several modules that share an input as one matrix, in the given order."""
        weight = stack([self._matrix(name, size, in_size) for name, size in out_sizes.items()])
        if not has_bias:
            return Projection(weight)
        return Projection(weight, torch.cat([self._read(f"{name}.bias", size) for name, size in out_sizes.items()]))

    def _matrix(self, name: str, out_size: int, in_size: int) -> Weight:
        """Reads a matrix in whatever form the checkpoint stores it."""
        self.parameter_count += out_size * in_size
        return self._source.matrix(name, (out_size, in_size), self._dtype, self._device)

    def _read(self, name: str, *shape: int) -> Tensor:
        tensor = self._source.read(name, shape, self._dtype, self._device)
        self.parameter_count += tensor.numel()
        return tensor
