"""Newest lengths of outputs, with their mean and quantiles."""

import bisect
from collections import deque


class LengthWindow:
    """Keeps the newest lengths. Each new one beyond that number drives the oldest out, so that a change of the traffic
    is followed."""

    def __init__(self, capacity: int) -> None:
        self._newest: deque[int] = deque(maxlen=capacity)
        self._sorted: list[int] = []
        self._sum = 0

    def __len__(self) -> int:
        return len(self._newest)

    @property
    def mean(self) -> float:
        """Mean of the lengths. 0: there are none."""
        return self._sum / len(self._newest) if self._newest else 0.0

    def add(self, length: int) -> None:
        """Adds a length."""
        if len(self._newest) == self._newest.maxlen:
            oldest = self._newest[0]
            self._sum -= oldest
            del self._sorted[bisect.bisect_left(self._sorted, oldest)]
        self._newest.append(length)
        self._sum += length
        bisect.insort(self._sorted, length)

    def quantile(self, share: float) -> int:
        """Returns the length that such a share does not exceed. There must be some."""
        return self._sorted[min(len(self._sorted) - 1, int(share * len(self._sorted)))]
