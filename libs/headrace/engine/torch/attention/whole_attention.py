"""The Protocol of bidirectional attention, as in encoders."""

from collections.abc import Sequence
from typing import Protocol

from torch import Tensor


class WholeAttention(Protocol):
    """Attention of every token of an input to every other. Keeps nothing between steps."""

    def begin(self, lengths: Sequence[int]) -> None:
        """Lays out a step of inputs with these lengths in tokens, consecutive and in ascending order."""
        ...

    def attend(self, projected: Tensor) -> Tensor:
        """Maps `projected` [tokens, (queries, keys and values) x heads x head] to [tokens, heads x head]."""
        ...
