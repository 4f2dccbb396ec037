"""Self-attention whose heads have gates (Qiu et al., 2025)."""

from dataclasses import dataclass

from torch import Tensor

from headrace.engine.torch.attention.paged_attention import PagedAttention
from headrace.engine.torch.decoder.mixers.exact_functions import sigmoid
from headrace.engine.torch.layers.linear import Linear


@dataclass(frozen=True, slots=True)
class GatedAttention:
    """Stands where self-attention stands in other layers."""

    index: int
    """Number of the layer among the attention layers."""
    qkv: Linear
    """Query, key and value projections as one product, and behind them the gates of all heads."""
    output: Linear
    size: int
    """Elements of all query heads."""

    def __call__(self, inputs: Tensor, attention: PagedAttention) -> Tensor:
        """Maps [tokens, hidden] to the same shape. Writes the tokens' keys and values first."""
        return self.output(self._attend(inputs, attention))

    def add_to_residual(self, inputs: Tensor, residual: Tensor, attention: PagedAttention) -> Tensor:
        """Computes the block's output plus `residual` [tokens, hidden]."""
        return self.output.add_to_residual(self._attend(inputs, attention), residual)

    def _attend(self, inputs: Tensor, attention: PagedAttention) -> Tensor:
        projected = self.qkv(inputs)
        attended = attention.attend(self.index, projected[:, : -self.size].contiguous())
        return (attended.float() * sigmoid(projected[:, -self.size :].float())).to(inputs.dtype)
