"""The Protocol of attention of every token of an input to every other, as encoders have it."""

from collections.abc import Sequence
from typing import Protocol

from torch import Tensor


class WholeAttention(Protocol):
    """Attention of every token of an input to every other. Nothing is kept between steps."""

    def begin(self, lengths: Sequence[int]) -> None:
        """Lays a step out: inputs of so many tokens, one after the other, in ascending order."""
        ...

    def attend(self, projected: Tensor) -> Tensor:
        """Maps `projected` [tokens, (queries, keys and values) x heads x head] to [tokens, heads x head]."""
        ...
