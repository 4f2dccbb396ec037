"""One layer of an encoder: bidirectional attention and a feed-forward block, each with a norm."""

from dataclasses import dataclass

from torch import Tensor

from headrace.engine.torch.attention.whole_attention import WholeAttention
from headrace.engine.torch.layers.gated_mlp import Mlp
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
    """Layer that normalizes the sum of each block's output and the residual (Devlin et al., 2018), or the blocks'
    inputs."""

    attention: EncoderAttention
    attention_norm: RowNorm | None
    """None: the inputs of attention are not normalized."""
    mlp: Mlp
    mlp_norm: RowNorm
    normalizes_inputs: bool = False

    def __call__(self, hidden: Tensor, attention: WholeAttention) -> Tensor:
        """Maps [tokens, hidden] to the same shape. Expects `attention.begin` to have run for the step."""
        if self.normalizes_inputs:
            inputs = hidden if self.attention_norm is None else self.attention_norm(hidden)
            hidden = self.attention.add_to_residual(inputs, hidden, attention)
            return self.mlp.add_to_residual(self.mlp_norm(hidden), hidden)
        hidden = self.attention.add_to_residual(hidden, hidden, attention)
        hidden = hidden if self.attention_norm is None else self.attention_norm(hidden)
        return self.mlp_norm(self.mlp.add_to_residual(hidden, hidden))
