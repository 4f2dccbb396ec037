"""The tensors of an encoder, by their names in the checkpoints of its family. Each is read once.

Query, key and value projections, which share their input, come as one matrix.
"""

import math
from collections.abc import Callable
from typing import Generic, TypeVar

import numpy as np

from headrace.engine.checkpoints.facts.encoder_config import EncoderConfig
from headrace.engine.checkpoints.layout.decoder_weights import Projection
from headrace.engine.checkpoints.weights.model_tensors import ModelTensors

ArrayT = TypeVar("ArrayT")
WeightT = TypeVar("WeightT")


class EncoderWeights(Generic[ArrayT, WeightT]):
    """Reads the tensors that an EncoderConfig calls for, in the arrays of torch or numpy. Raises InvalidCheckpoint if
    they do not match it."""

    def __init__(
        self, config: EncoderConfig, tensors: ModelTensors[ArrayT, WeightT], has: Callable[[str], bool]
    ) -> None:
        """`has` tells whether the checkpoint has a tensor of some name."""
        self._config = config
        self._names = config.names
        self._tensors = tensors
        self._has = has
        with_head = has(f"{config.names.root}.{config.names.word_embeddings}.weight")
        self._prefix = f"{config.names.root}." if with_head else ""
        self.parameter_count = 0

    def words(self) -> ArrayT:
        """Reads the table of words [vocabulary, hidden]."""
        return self._read(
            f"{self._names.word_embeddings}.weight", self._config.vocabulary_size, self._config.hidden_size
        )

    def positions(self) -> ArrayT | None:
        """Reads the table of positions [positions, hidden], if there is one."""
        if not self._names.position_embeddings:
            return None
        return self._read(
            f"{self._names.position_embeddings}.weight", self._config.position_count, self._config.hidden_size
        )

    def segments(self) -> ArrayT | None:
        """Reads the table of segments [segments, hidden], of which all tokens have the first, if there is one."""
        config = self._config
        if not config.type_count:
            return None
        return self._read(f"{self._names.type_embeddings}.weight", config.type_count, config.hidden_size)

    def relative_bias(self) -> ArrayT | None:
        """Reads the biases of relative distances [buckets, heads], if there are any."""
        config = self._config
        if not config.bucket_count:
            return None
        return self._read(f"{self._names.relative_bias}.weight", config.bucket_count, config.head_count)

    def embedding_norm(self) -> tuple[ArrayT, ArrayT]:
        """Reads weight and bias of the norm of the embeddings, both [hidden]."""
        return self._norm(self._names.embedding_norm)

    def final_norm(self) -> tuple[ArrayT, ArrayT] | None:
        """Reads the norm of the last hidden states, if there is one."""
        return self._norm(self._names.final_norm) if self._names.final_norm else None

    def attention_norm(self, index: int) -> tuple[ArrayT, ArrayT] | None:
        """Reads the norm behind attention or before it, which the first layer may lack."""
        if self._config.normalizes_inputs and index == 0:
            return None
        return self._norm(f"{self._names.layer}.{index}.{self._names.attention_norm}")

    def output_norm(self, index: int) -> tuple[ArrayT, ArrayT]:
        return self._norm(f"{self._names.layer}.{index}.{self._names.output_norm}")

    def qkv(self, index: int) -> Projection[ArrayT, WeightT]:
        names, size = self._names, self._config.hidden_size
        if names.qkv:
            return self._projection(index, (names.qkv,), 3 * size, size)
        return self._projection(index, (names.query, names.key, names.value), size, size)

    def attention_output(self, index: int) -> Projection[ArrayT, WeightT]:
        return self._projection(
            index, (self._names.attention_output,), self._config.hidden_size, self._config.hidden_size
        )

    def up(self, index: int) -> Projection[ArrayT, WeightT]:
        """Reads the first product of the feed-forward block, with its gates first, if it has any."""
        names, out_size, in_size = self._names, self._config.intermediate_size, self._config.hidden_size
        if names.gate:
            return self._projection(index, (names.gate, names.up), out_size, in_size)
        found = self._projection(index, (names.up,), 2 * out_size if self._config.is_gated else out_size, in_size)
        return self._swapped(found, out_size) if self._config.has_ups_first else found

    def _swapped(self, projection: Projection[ArrayT, WeightT], size: int) -> Projection[ArrayT, WeightT]:
        """Returns the same with its second half of `size` rows first."""
        rows = np.roll(np.arange(2 * size), size)
        bias = None if projection.bias is None else self._tensors.picked(projection.bias, rows)
        return Projection(self._tensors.reordered(projection.weight, rows), bias)

    def down(self, index: int) -> Projection[ArrayT, WeightT]:
        return self._projection(index, (self._names.down,), self._config.hidden_size, self._config.intermediate_size)

    def _projection(
        self, index: int, names: tuple[str, ...], out_size: int, in_size: int
    ) -> Projection[ArrayT, WeightT]:
        """Reads modules of a layer that share an input as one matrix, in the given order."""
        modules = [f"{self._names.layer}.{index}.{name}" for name in names]
        self.parameter_count += len(modules) * out_size * in_size
        matrices = [self._tensors.matrix(self._prefix + module, (out_size, in_size)) for module in modules]
        if self._config.unbiased.issuperset(names):
            return Projection(self._tensors.stack(matrices))
        bias = self._tensors.join([self._read(f"{module}.bias", out_size) for module in modules])
        return Projection(self._tensors.stack(matrices), bias)

    def _norm(self, name: str) -> tuple[ArrayT, ArrayT]:
        """Reads weight and bias of a norm. The first BERT checkpoints use TensorFlow's names for them."""
        is_old = self._has(f"{self._prefix}{name}.gamma")
        gain, shift = ("gamma", "beta") if is_old else ("weight", "bias")
        size = self._config.hidden_size
        weight = self._read(f"{name}.{gain}", size)
        if name.rpartition(".")[2] in self._config.unbiased:
            return weight, self._tensors.scaled(weight, 0.0)
        return weight, self._read(f"{name}.{shift}", size)

    def _read(self, name: str, *shape: int) -> ArrayT:
        self.parameter_count += math.prod(shape)
        return self._tensors.read(self._prefix + name, shape)
