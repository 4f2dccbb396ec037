"""Hidden states of one sequence that a draft head has not read yet."""

import numpy as np

from headrace.engine.step.auxiliary.auxiliary_states import Floats


class UnreadStates:
    """States of consecutive positions."""

    def __init__(self, start: int) -> None:
        self.start = start
        """Position of the first one."""
        self._parts: list[Floats] = []

    @property
    def end(self) -> int:
        """Position one past the last one."""
        return self.start + sum(map(len, self._parts))

    def put(self, position: int, states: Floats) -> None:
        """Adds states from a position on, in place of older ones: draft tokens that were wrong have been computed
        again. States before the first position are dropped."""
        kept = self._joined()[: max(0, position - self.start)]
        skipped = max(0, self.start - position)
        self._parts = [part for part in (kept, states[skipped:].copy()) if len(part)]

    def take(self, end: int) -> Floats:
        """Removes the states of all positions before `end`, and returns them."""
        joined, count = self._joined(), end - self.start
        self._parts = [joined[count:].copy()] if len(joined) > count else []
        self.start = end
        return joined[:count]

    def _joined(self) -> Floats:
        if len(self._parts) == 1:
            return self._parts[0]
        return np.concatenate(self._parts) if self._parts else np.empty((0, 0), np.float32)
