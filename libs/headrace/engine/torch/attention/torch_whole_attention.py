"""Attention of encoders through torch."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

import torch
from torch import Tensor
from torch.nn import functional

from headrace.engine.checkpoints.facts.rotary.rope_scaling import Floats
from headrace.engine.torch.layers.relative_bias import RelativeBias


@dataclass(frozen=True, slots=True)
class EqualInputs:
    """Inputs of equal length, which attend in one call, each to itself, without padding."""

    rows: slice
    """Rows of the inputs' tokens in the step."""
    length: int
    """Tokens of each input."""
    bias: Tensor | None
    """Number added to each score, minus infinity beyond a window: [1, heads or 1, length, length]."""


class TorchWholeAttention:
    """Implements the Protocol of `whole_attention.py` with torch."""

    def __init__(
        self,
        head_count: int,
        head_size: int,
        bias: RelativeBias | None,
        dtype: torch.dtype,
        device: torch.device,
        window: int | None = None,
        angles: tuple[Floats, Floats] | None = None,
    ) -> None:
        """`window` is the number of tokens on either side that a query sees, itself included, and `angles` are cosines
        and sines [positions, rotary/2], if heads rotate."""
        self._head_count = head_count
        self._head_size = head_size
        self._bias = bias
        self._window = window
        self._dtype = dtype
        self._device = device
        self._angles = None if angles is None else [torch.tensor(table, device=device) for table in angles]
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
        if self._angles is not None:
            queries, keys = _rotated(queries, *self._angles), _rotated(keys, *self._angles)
        outputs = functional.scaled_dot_product_attention(queries, keys, values, attn_mask=group.bias)
        return outputs.transpose(1, 2).reshape(len(projected), -1)

    def _bias_of(self, length: int) -> Tensor | None:
        """Returns the bias [1, heads, queries, keys] of inputs of `length` tokens, if there is one."""
        if self._bias is None and self._window is None:
            return None
        places = torch.arange(length, device=self._device)
        distances = places[None, :] - places[:, None]
        if self._bias is not None:
            return self._bias.at_distances(distances.flatten()).view(1, -1, length, length)
        bias = torch.zeros(1, 1, length, length, dtype=self._dtype, device=self._device)
        return bias.masked_fill(distances.abs() >= (self._window or length), -torch.inf)


def _rotated(heads: Tensor, cosine: Tensor, sine: Tensor) -> Tensor:
    """Rotates [inputs, heads, length, head] by the positions (Su et al., 2021)."""
    cosine, sine = cosine[: heads.shape[2]], sine[: heads.shape[2]]
    first, second = heads.float().chunk(2, dim=-1)
    return torch.cat((first * cosine - second * sine, second * cosine + first * sine), dim=-1).to(heads.dtype)
