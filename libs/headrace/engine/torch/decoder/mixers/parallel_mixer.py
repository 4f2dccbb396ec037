"""Attention and a state side by side, as in Falcon-H1 (Technology Innovation Institute, 2025)."""

from dataclasses import dataclass

from torch import Tensor

from headrace.engine.torch.attention.paged_attention import PagedAttention
from headrace.engine.torch.attention.token_mixer import TokenMixer


@dataclass(frozen=True, slots=True)
class ParallelMixer:
    """Two blocks that read the same inputs, and whose outputs are added."""

    first: TokenMixer
    second: TokenMixer

    def __call__(self, inputs: Tensor, attention: PagedAttention) -> Tensor:
        """Maps [tokens, hidden] to the same shape."""
        return self.second.add_to_residual(inputs, self.first(inputs, attention), attention)

    def add_to_residual(self, inputs: Tensor, residual: Tensor, attention: PagedAttention) -> Tensor:
        """Computes the sum of both plus `residual` [tokens, hidden]."""
        return self.second.add_to_residual(inputs, self.first.add_to_residual(inputs, residual, attention), attention)
