"""Attention of encoders through torch."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

import torch
from torch import Tensor
from torch.nn import functional

from headrace.engine.torch.layers.relative_bias import RelativeBias


@dataclass(frozen=True, slots=True)
class EqualInputs:
    """Inputs of equal length, which attend in one call, each to itself, without padding."""

    rows: slice
    """Rows of the inputs' tokens in the step."""
    length: int
    """Tokens of each input."""
    bias: Tensor | None
    """Bias added to the scores: [1, heads, length, length]."""


class TorchWholeAttention:
    """Implements the Protocol of `whole_attention.py` with torch."""

    def __init__(self, head_count: int, head_size: int, bias: RelativeBias | None) -> None:
        self._head_count = head_count
        self._head_size = head_size
        self._bias = bias
        self._groups: list[EqualInputs] = []

    def begin(self, lengths: Sequence[int]) -> None:
        self._groups = []
        first = 0
        for length, members in groupby(lengths):
            end = first + length * len(list(members))
            self._groups.append(EqualInputs(slice(first, end), length, self._bias_of(length)))
            first = end

    def attend(self, projected: Tensor) -> Tensor:
        return torch.cat([self._attend(projected[group.rows], group) for group in self._groups])

    def _attend(self, projected: Tensor, group: EqualInputs) -> Tensor:
        """Maps [tokens, 3 x hidden] to [tokens, hidden]."""
        split = projected.view(-1, group.length, 3, self._head_count, self._head_size).permute(2, 0, 3, 1, 4)
        queries, keys, values = split.unbind()
        outputs = functional.scaled_dot_product_attention(queries, keys, values, attn_mask=group.bias)
        return outputs.transpose(1, 2).reshape(len(projected), -1)

    def _bias_of(self, length: int) -> Tensor | None:
        """Returns the bias [1, heads, queries, keys] of inputs of `length` tokens, if there is one."""
        if self._bias is None:
            return None
        places = torch.arange(length)
        distances = places[None, :] - places[:, None]
        return self._bias.at_distances(distances.flatten()).view(1, -1, length, length)
