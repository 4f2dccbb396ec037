"""Hidden states of one sequence that a draft head has not read yet."""

import numpy as np

from headrace.engine.step.auxiliary.auxiliary_states import Floats


class UnreadStates:
    """States of consecutive positions, in parts that are joined when they are read."""

    def __init__(self, start: int) -> None:
        self.start = self.end = start
        """Positions of the first one, and one past the last."""
        self._parts: list[Floats] = []

    def put(self, position: int, states: Floats) -> None:
        """Adds states from a position on, in place of older ones: draft tokens that were wrong have been computed
        again. States before the first position are dropped."""
        self._cut(max(position, self.start))
        added = states[max(0, self.start - position) :].copy()
        if len(added):
            self._parts.append(added)
            self.end += len(added)

    def take(self, end: int) -> Floats:
        """Removes the states of all positions before `end`, and returns them."""
        count, joined = end - self.start, np.concatenate(self._parts)
        self._parts = [joined[count:].copy()] if len(joined) > count else []
        self.start = end
        return joined[:count]

    def _cut(self, end: int) -> None:
        """Drops the states from a position on."""
        while self.end > end:
            last = self._parts.pop()
            self.end -= len(last)
            if self.end < end:
                self._parts.append(last[: end - self.end])
                self.end = end
