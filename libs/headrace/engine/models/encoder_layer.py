"""One layer of an encoder: attention of every token to every other, and a feed-forward block, each with a norm."""

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from headrace.engine.layers.feed_forward import FeedForward
from headrace.engine.layers.layer_norm import LayerNorm
from headrace.engine.layers.linear import Linear


@dataclass(frozen=True, slots=True)
class EqualInputs:
    """Inputs of the same length, which attend in one call, each to itself.

    There is no padding: what an input is computed with depends on its own length alone, so its company cannot change
    its bits.
    """

    rows: slice
    """Their tokens among those of the step."""
    length: int
    """Tokens of each."""
    bias: Tensor | None
    """Added to the scores: [1, heads, length, length]."""


@dataclass(frozen=True, slots=True)
class EncoderAttention:
    """Attention without a mask (Vaswani et al., 2017)."""

    qkv: Linear
    """Query, key and value projections as one product."""
    output: Linear
    head_count: int
    head_size: int

    def add(self, inputs: Tensor, residual: Tensor, groups: list[EqualInputs]) -> Tensor:
        """The block's output plus `residual`, both [tokens, hidden]."""
        projected = self.qkv(inputs)
        attended = torch.cat([self._attend(projected[group.rows], group) for group in groups])
        return self.output.add(attended, residual)

    def _attend(self, projected: Tensor, group: EqualInputs) -> Tensor:
        """[tokens, 3 x hidden] to [tokens, hidden]."""
        split = projected.view(-1, group.length, 3, self.head_count, self.head_size).permute(2, 0, 3, 1, 4)
        queries, keys, values = split.unbind()
        outputs = functional.scaled_dot_product_attention(queries, keys, values, attn_mask=group.bias)
        return outputs.transpose(1, 2).reshape(len(projected), -1)


@dataclass(frozen=True, slots=True)
class EncoderLayer:
    """Outputs are normalised with the residual (Devlin et al., 2018)."""

    attention: EncoderAttention
    attention_norm: LayerNorm
    mlp: FeedForward
    mlp_norm: LayerNorm

    def __call__(self, hidden: Tensor, groups: list[EqualInputs]) -> Tensor:
        """[tokens, hidden] to the same shape."""
        hidden = self.attention_norm(self.attention.add(hidden, hidden, groups))
        return self.mlp_norm(self.mlp.add(hidden, hidden))
