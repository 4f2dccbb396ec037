"""Streams of hidden states: made of embeddings before the first layer, and merged behind the last one."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from headrace.engine.torch.layers.linear import Linear

MIN_SQUARE = 1e-5
"""Smallest mean square that a stream is divided by."""


@dataclass(frozen=True, slots=True)
class HiddenStreams:
    """Products around all layers (AltUp, Baykal et al., 2023). Each result has the magnitude of the first stream."""

    spreading: Sequence[Linear]
    """Products from embeddings to each stream but the first."""
    merging: Sequence[Linear]
    """Products from each stream but the first to the output."""

    def spread(self, embedded: Tensor) -> Tensor:
        """Maps embeddings [tokens, hidden] to streams [streams, tokens, hidden]."""
        others = [_matched(linear(embedded), embedded) for linear in self.spreading]
        return torch.stack([embedded, *others])

    def merge(self, streams: Tensor) -> Tensor:
        """Maps streams [streams, tokens, hidden] to hidden states [tokens, hidden]: their mean."""
        first, *others = streams.unbind()
        total = first
        for linear, stream in zip(self.merging, others, strict=True):
            total = total + _matched(linear(stream), first)
        return total / len(streams)


def _matched(numbers: Tensor, target: Tensor) -> Tensor:
    """Scales rows to the root mean square of those of `target`."""
    return numbers * (_magnitude(target) / _magnitude(numbers).clamp(min=math.sqrt(MIN_SQUARE)))


def _magnitude(numbers: Tensor) -> Tensor:
    length = torch.linalg.vector_norm(numbers.contiguous(), dim=-1, keepdim=True, dtype=torch.float32)
    magnitude: Tensor = length / math.sqrt(numbers.shape[-1])
    return magnitude.to(numbers.dtype)
