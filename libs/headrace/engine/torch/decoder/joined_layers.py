"""The Protocol of a decoder's layers computed together, where a device has a quicker way than one by one."""

from typing import Protocol

from torch import Tensor

from headrace.engine.torch.attention.paged_attention import PagedAttention


class JoinedLayers(Protocol):
    """All layers of a decoder. Their result is that of the layers one by one."""

    def takes(self, hidden: Tensor, attention: PagedAttention) -> bool:
        """Whether a step can be computed, from its hidden states [tokens, hidden]."""
        ...

    def __call__(self, hidden: Tensor, attention: PagedAttention) -> Tensor:
        """Maps hidden states that it takes to the same shape, as the last layer gives them."""
        ...
