"""Builds the parts of an encoder from a checkpoint's tensors, fusing products that share an input."""

from functools import partial

import torch
from torch import Tensor

from headrace.engine.checkpoints.facts.encoder_config import EncoderConfig
from headrace.engine.checkpoints.safetensors_weights import Weights
from headrace.engine.checkpoints.weight_record import WeightRecord
from headrace.engine.checkpoints.weights.quantized_matrix import stack
from headrace.engine.torch.encoder.encoder_layer import EncoderAttention, EncoderLayer
from headrace.engine.torch.layers.feed_forward import FeedForward
from headrace.engine.torch.layers.linear import Linear
from headrace.engine.torch.layers.relative_bias import RelativeBias
from headrace.engine.torch.operators.operators import Operators, RowNorm


class EncoderReader:
    """Reads each tensor once, by its name in the family's checkpoints."""

    def __init__(
        self,
        config: EncoderConfig,
        weights: Weights,
        operators: Operators,
        dtype: torch.dtype,
        device: torch.device,
    ) -> None:
        self._config = config
        self._operators = operators
        self._names = config.names
        self._files = weights
        self._weights = WeightRecord(weights)
        self._dtype = dtype
        self._device = device
        with_head = f"{config.names.root}.{config.names.word_embeddings}.weight" in weights
        self._prefix = f"{config.names.root}." if with_head else ""
        self.parameter_count = 0

    @property
    def byte_count(self) -> int:
        """Memory taken by the weights read so far, in bytes."""
        return self._weights.byte_count

    def word_embeddings(self) -> Tensor:
        return self._read(
            f"{self._names.word_embeddings}.weight", self._config.vocabulary_size, self._config.hidden_size
        )

    def position_embeddings(self) -> Tensor:
        """Reads the position embeddings [positions, hidden], with the embedding of the first segment added, which all
        tokens share."""
        config = self._config
        table = self._read(f"{self._names.position_embeddings}.weight", config.position_count, config.hidden_size)
        if not config.type_count:
            return table
        return table + self._read(f"{self._names.type_embeddings}.weight", config.type_count, config.hidden_size)[0]

    def relative_bias(self) -> RelativeBias | None:
        config = self._config
        if not config.bucket_count:
            return None
        return RelativeBias(self._read(f"{self._names.relative_bias}.weight", config.bucket_count, config.head_count))

    def embedding_norm(self) -> RowNorm:
        return self._norm(self._names.embedding_norm)

    def layer(self, index: int) -> EncoderLayer:
        config, names, prefix = self._config, self._names, f"{self._names.layer}.{index}"
        size, inner = config.hidden_size, config.intermediate_size
        return EncoderLayer(
            attention=EncoderAttention(
                qkv=self._linear([f"{prefix}.{name}" for name in (names.query, names.key, names.value)], size, size),
                output=self._linear([f"{prefix}.{names.attention_output}"], size, size),
            ),
            attention_norm=self._norm(f"{prefix}.{names.attention_norm}"),
            mlp=FeedForward(
                up=self._linear([f"{prefix}.{names.up}"], inner, size),
                down=self._linear([f"{prefix}.{names.down}"], size, inner),
                activate=partial(self._operators.activate, activation=config.activation),
            ),
            mlp_norm=self._norm(f"{prefix}.{names.output_norm}"),
        )

    def _linear(self, modules: list[str], out_size: int, in_size: int) -> Linear:
        """Reads several modules that share an input as one product, in the given order."""
        self.parameter_count += len(modules) * out_size * in_size
        shape = (out_size, in_size)
        matrices = [self._weights.matrix(self._prefix + name, shape, self._dtype, self._device) for name in modules]
        bias = torch.cat([self._read(f"{name}.bias", out_size) for name in modules])
        return self._operators.linear(stack(matrices), bias)

    def _norm(self, name: str) -> RowNorm:
        """Reads a norm. The first BERT checkpoints use TensorFlow's names for it."""
        gain, shift = ("gamma", "beta") if f"{self._prefix}{name}.gamma" in self._files else ("weight", "bias")
        size = self._config.hidden_size
        weight, bias = self._read(f"{name}.{gain}", size), self._read(f"{name}.{shift}", size)
        return self._operators.layer_norm(weight, bias, self._config.norm_epsilon)

    def _read(self, name: str, *shape: int) -> Tensor:
        tensor = self._weights.read(self._prefix + name, shape, self._dtype, self._device)
        self.parameter_count += tensor.numel()
        return tensor
