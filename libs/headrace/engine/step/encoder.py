"""The Protocol of an encoder, in which every token of an input sees every other."""

from collections.abc import Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray


class Encoder(Protocol):
    """Model that keeps nothing between calls."""

    def __call__(self, inputs: Sequence[tuple[int, ...]]) -> Sequence[NDArray[np.float32]]:
        """Computes the final hidden states, fp32 [tokens, hidden], of each input, which has at least one token. They
        are valid until the next call, and on a CPU depend on their own input alone, bit by bit."""
        ...
