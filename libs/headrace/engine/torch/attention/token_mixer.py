"""The Protocol of the block of a layer in which tokens of a sequence meet: attention, or a state."""

from typing import Protocol

from torch import Tensor

from headrace.engine.torch.attention.paged_attention import PagedAttention


class TokenMixer(Protocol):
    """Block before the feed-forward block."""

    def __call__(self, inputs: Tensor, attention: PagedAttention) -> Tensor:
        """Maps [tokens, hidden] to the same shape. Writes what later tokens will read first."""
        ...

    def add_to_residual(self, inputs: Tensor, residual: Tensor, attention: PagedAttention) -> Tensor:
        """Computes the block's output plus `residual` [tokens, hidden]."""
        ...
