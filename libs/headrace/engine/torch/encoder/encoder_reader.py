"""Builds the parts of an encoder from a checkpoint's tensors."""

from functools import partial

import torch
from torch import Tensor

from headrace.engine.checkpoints.facts.encoder_config import EncoderConfig
from headrace.engine.checkpoints.layout.decoder_weights import Projection
from headrace.engine.checkpoints.layout.encoder_weights import EncoderWeights
from headrace.engine.checkpoints.safetensors_weights import Weights
from headrace.engine.checkpoints.weight_record import WeightRecord
from headrace.engine.checkpoints.weights.quantized_matrix import Weight
from headrace.engine.torch.decoder.torch_tensors import TorchTensors
from headrace.engine.torch.encoder.encoder_layer import EncoderAttention, EncoderLayer
from headrace.engine.torch.layers.feed_forward import FeedForward
from headrace.engine.torch.layers.gated_mlp import GatedMlp, Mlp
from headrace.engine.torch.layers.linear import Linear
from headrace.engine.torch.layers.relative_bias import RelativeBias
from headrace.engine.torch.operators.operators import Operators, RowNorm


class EncoderReader:
    """Reads each tensor once. Raises InvalidCheckpoint if they do not fit."""

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
        self._record = WeightRecord(weights)
        self._weights = EncoderWeights(config, TorchTensors(self._record, dtype, device), weights.__contains__)

    @property
    def parameter_count(self) -> int:
        return self._weights.parameter_count

    @property
    def byte_count(self) -> int:
        """Memory taken by the weights read so far, in bytes."""
        return self._record.byte_count

    def word_embeddings(self) -> Tensor:
        return self._weights.words()

    def position_embeddings(self) -> Tensor | None:
        """Reads the position embeddings [positions, hidden], with the embedding of the first segment added, then the
        same with that of the second, if inputs have two. None: there is nothing to add."""
        table, segments = self._weights.positions(), self._weights.segments()
        if table is None:
            return None if segments is None else segments[: self._config.segment_count]
        if segments is None:
            return table
        return torch.cat([table + segment for segment in segments[: self._config.segment_count]])

    def relative_bias(self) -> RelativeBias | None:
        table = self._weights.relative_bias()
        return None if table is None else RelativeBias(table)

    def embedding_norm(self) -> RowNorm:
        return self._norm(self._weights.embedding_norm())

    def final_norm(self) -> RowNorm | None:
        return self._norm_if_there(self._weights.final_norm())

    def layer(self, index: int) -> EncoderLayer:
        weights = self._weights
        return EncoderLayer(
            attention=EncoderAttention(
                qkv=self._linear(weights.qkv(index)), output=self._linear(weights.attention_output(index))
            ),
            attention_norm=self._norm_if_there(weights.attention_norm(index)),
            mlp=self._mlp(index),
            mlp_norm=self._norm(weights.output_norm(index)),
            normalizes_inputs=self._config.normalizes_inputs,
        )

    def _mlp(self, index: int) -> Mlp:
        up, down = self._linear(self._weights.up(index)), self._linear(self._weights.down(index))
        activation = self._config.activation
        if self._config.is_gated:
            return GatedMlp(up, down, gate=partial(self._operators.gate, activation=activation))
        return FeedForward(up, down, activate=partial(self._operators.activate, activation=activation))

    def _linear(self, projection: Projection[Tensor, Weight]) -> Linear:
        return self._operators.linear(projection.weight, projection.bias)

    def _norm_if_there(self, found: tuple[Tensor, Tensor] | None) -> RowNorm | None:
        return None if found is None else self._norm(found)

    def _norm(self, found: tuple[Tensor, Tensor]) -> RowNorm:
        weight, bias = found
        return self._operators.layer_norm(weight, bias, self._config.norm_epsilon)
