"""The encoder that all families are: embeddings, and layers in which every token sees every other."""

from collections.abc import Sequence
from itertools import groupby

import torch
from torch import Tensor
from torch.nn import functional

from headrace.engine.loader.weights import Weights
from headrace.engine.models.encoder_config import EncoderConfig
from headrace.engine.models.encoder_layer import EqualInputs
from headrace.engine.models.encoder_reader import EncoderReader


class Encoder:
    """An encoder with its weights. Holds no state of any request."""

    def __init__(self, config: EncoderConfig, weights: Weights, dtype: torch.dtype, device: torch.device) -> None:
        """Raises InvalidCheckpoint where `weights` do not suit."""
        reader = EncoderReader(config, weights, dtype, device)
        self._config = config
        self._device = device
        self._words = reader.word_embeddings()
        self._positions = reader.position_embeddings()
        self._norm = reader.embedding_norm()
        self._bias = reader.relative_bias()
        self._layers = [reader.layer(index) for index in range(config.layer_count)]
        self.parameter_count = reader.parameter_count
        self.byte_count = reader.byte_count

    def __call__(self, inputs: Sequence[tuple[int, ...]]) -> list[Tensor]:
        """The final hidden states [tokens, hidden] of each input, which has at least one token."""
        order = sorted(range(len(inputs)), key=lambda index: len(inputs[index]))
        ordered = [inputs[index] for index in order]
        groups = self._group(ordered)
        hidden = self._norm(self._embed(ordered))
        for layer in self._layers:
            hidden = layer(hidden, groups)
        parts = zip(order, torch.split(hidden, [len(tokens) for tokens in ordered]), strict=True)
        return [part for _, part in sorted(parts, key=lambda pair: pair[0])]

    def _embed(self, inputs: Sequence[tuple[int, ...]]) -> Tensor:
        token_ids = self._tensor([token_id for tokens in inputs for token_id in tokens])
        positions = self._tensor([position for tokens in inputs for position in self._config.positions(tokens)])
        return functional.embedding(token_ids, self._words) + functional.embedding(positions, self._positions)

    def _group(self, inputs: Sequence[tuple[int, ...]]) -> list[EqualInputs]:
        """`inputs` are in order of their length."""
        groups: list[EqualInputs] = []
        first = 0
        for length, members in groupby(len(tokens) for tokens in inputs):
            end = first + length * len(list(members))
            bias = None if self._bias is None else self._bias(length)
            groups.append(EqualInputs(slice(first, end), length, bias))
            first = end
        return groups

    def _tensor(self, values: list[int]) -> Tensor:
        return torch.tensor(values, dtype=torch.int64, device=self._device)
