"""Hidden states inside a model, which a draft head reads beside the tokens (Li et al., 2025)."""

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from headrace.engine.batching.step_plan import Chunk

Floats = NDArray[np.float32]
Receive = Callable[[Sequence[Chunk], Floats], None]
"""Takes the chunks of a step, and the states fp32 [tokens, layers x hidden] of their tokens, one chunk after the other.
The states are valid until it returns."""


class AuxiliaryStates:
    """Memory for the states of one step. It grows and never shrinks."""

    def __init__(self, layers: Sequence[int], hidden_size: int, receive: Receive) -> None:
        """`layers`: the layers whose inputs are wanted; the number of layers stands for the inputs of the final
        norm."""
        self.layers = np.array(layers, np.int64)
        self.receive = receive
        self._memory = np.empty((0, len(layers) * hidden_size), np.float32)

    def rows(self, count: int) -> Floats:
        """Returns memory for the states of `count` tokens [count, layers x hidden], valid until the next call."""
        if count > len(self._memory):
            self._memory = np.empty((count, self._memory.shape[1]), np.float32)
        return self._memory[:count]
