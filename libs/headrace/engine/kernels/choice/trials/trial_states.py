"""States of a layer with random inputs, on which recurrences and convolutions are tried before use."""

import numpy as np
from numpy.typing import NDArray

from headrace.engine.kernels.context import KernelContext
from headrace.engine.kernels.structures import Convolution, Recurrence
from headrace.engine.memory.aligned import address

SLOTS, ROWS = 4, 7
HEADS, KEY_HEADS, KEYS, VALUES = 4, 2, 24, 40
"""Values of more than two vectors, of which the last is no whole one."""
TAPS, CHANNELS, STRIDE = 4, 43, 50
MOVES = ((0, 6, -1, 0, 2, 3, 0, 0), (6, 1, 1, 1, 0, 0, 0, 0))
"""A text that begins, a copy of whose state is taken behind two tokens, and one that goes on."""

Floats = NDArray[np.float32]


class TrialStates:
    """Inputs, and states that each trial begins with."""

    def __init__(self, generator: np.random.Generator) -> None:
        def normal(*shape: int) -> Floats:
            return generator.standard_normal(shape, np.float32)

        def random(*shape: int) -> Floats:
            return generator.random(shape, np.float32)

        shared = normal(ROWS, KEY_HEADS, KEYS), random(ROWS, KEY_HEADS, KEYS) / KEYS
        self._parts = *shared, normal(ROWS, HEADS, VALUES), random(ROWS, HEADS), random(ROWS, HEADS)
        self._memories = normal(SLOTS, HEADS, KEYS, VALUES)
        self._rows, self._taps, self._bias = normal(ROWS, STRIDE), normal(TAPS, CHANNELS), normal(CHANNELS)
        self._tails = normal(SLOTS, TAPS - 1, CHANNELS)
        self._moves = np.array(MOVES, np.int64)

    def recur(self, context: KernelContext, *, corrects: bool) -> Floats:
        """Computes the outputs of a recurrence, and behind them all states."""
        memories, outputs = self._memories.copy(), np.empty_like(self._parts[2])
        places = [address(each) for each in (*self._parts, outputs, memories)]
        counts = ROWS, len(MOVES), SLOTS
        context.recur(Recurrence(*places, address(self._moves), *counts, HEADS, KEY_HEADS, KEYS, VALUES, corrects))
        return np.concatenate([outputs.ravel(), memories.ravel()])

    def convolve(self, context: KernelContext) -> Floats:
        """Computes the outputs of a convolution, and behind them all states."""
        tails, outputs = self._tails.copy(), np.empty((ROWS, CHANNELS), np.float32)
        places = [address(each) for each in (self._rows, self._taps, self._bias, outputs, tails)]
        context.convolve(Convolution(*places, address(self._moves), ROWS, len(MOVES), SLOTS, TAPS, CHANNELS, STRIDE))
        return np.concatenate([outputs.ravel(), tails.ravel()])
