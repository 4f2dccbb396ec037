"""Self-attention between its projections."""

from dataclasses import dataclass

from torch import Tensor

from headrace.engine.torch.attention.paged_attention import PagedAttention
from headrace.engine.torch.layers.linear import Linear


@dataclass(frozen=True, slots=True)
class SelfAttention:
    index: int
    """Number of the layer among the attention layers."""
    qkv: Linear
    """Query, key and value projections as one product."""
    output: Linear

    def __call__(self, inputs: Tensor, attention: PagedAttention) -> Tensor:
        """Maps [tokens, hidden] to the same shape. Writes the tokens' keys and values first."""
        return self.output(attention.attend(self.index, self.qkv(inputs)))

    def add_to_residual(self, inputs: Tensor, residual: Tensor, attention: PagedAttention) -> Tensor:
        """Computes the block's output plus `residual` [tokens, hidden]. Writes the tokens' keys and values first."""
        return self.output.add_to_residual(attention.attend(self.index, self.qkv(inputs)), residual)
