"""Rows that kernels write their results to, in the same memory in every step."""

import numpy as np

from headrace.engine.kernels.context import Floats


class RowBuffer:
    """Memory for rows of `size` fp32 numbers. It grows and never shrinks: faulting in fresh pages can cost more than
    the step itself."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._memory = np.empty((0, size), np.float32)

    def rows(self, count: int) -> Floats:
        """Returns `count` rows [count, size] of any content, valid until the next call."""
        if count > len(self._memory):
            self._memory = np.empty((count, self._size), np.float32)
        return self._memory[:count]
