"""One layer of an encoder: bidirectional attention and a feed-forward block, each with a norm."""

from dataclasses import dataclass

from torch import Tensor

from headrace.engine.torch.attention.whole_attention import WholeAttention
from headrace.engine.torch.layers.feed_forward import FeedForward
from headrace.engine.torch.layers.linear import Linear
from headrace.engine.torch.operators.operators import RowNorm


@dataclass(frozen=True, slots=True)
class EncoderAttention:
    """Attention without a mask (Vaswani et al., 2017)."""

    qkv: Linear
    """Query, key and value projections as one product."""
    output: Linear

    def add_to_residual(self, inputs: Tensor, residual: Tensor, attention: WholeAttention) -> Tensor:
        """Computes the block's output plus `residual`, both [tokens, hidden]."""
        return self.output.add_to_residual(attention.attend(self.qkv(inputs)), residual)


@dataclass(frozen=True, slots=True)
class EncoderLayer:
    """Layer that normalizes the sum of each block's output and the residual (Devlin et al., 2018)."""

    attention: EncoderAttention
    attention_norm: RowNorm
    mlp: FeedForward
    mlp_norm: RowNorm

    def __call__(self, hidden: Tensor, attention: WholeAttention) -> Tensor:
        """Maps [tokens, hidden] to the same shape. Expects `attention.begin` to have run for the step."""
        hidden = self.attention_norm(self.attention.add_to_residual(hidden, hidden, attention))
        return self.mlp_norm(self.mlp.add_to_residual(hidden, hidden))
