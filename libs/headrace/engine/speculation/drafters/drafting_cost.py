"""Measured times of a model that drafts."""

from collections import deque
from collections.abc import Mapping, Sequence

from headrace.engine.speculation.step_cost import WINDOW, StepCost

FEW = 3
"""First steps that must have been measured before they are taken to be longer than others."""
MAX_MEASURED = 48
"""Rows of the longest first step whose time says something about others: longer ones read texts."""


class DraftingCost:
    """Times of steps with and without a grammar, which takes longer."""

    def __init__(self, step_seconds: Mapping[int, float] | None = None) -> None:
        """`step_seconds` has the seconds of steps by row count, as measured at load."""
        self._costs = {False: StepCost(step_seconds), True: StepCost(step_seconds)}
        self._entries: deque[float] = deque(maxlen=WINDOW)
        """Seconds that the latest first steps took longer than others."""
        self._is_constrained = False
        """Whether some sequence of the last call had a grammar."""

    def step_seconds(self, row_count: int) -> float:
        """Returns the seconds of a step. 0 if none was measured yet."""
        cost = self._costs[self._is_constrained and self._costs[True].is_known]
        return cost(row_count) if cost.is_known else 0.0

    def seconds_to_enter(self) -> float:
        """Returns the seconds that the first step of each call takes longer than the others: the large model has had
        the caches in between."""
        return max(0.0, sorted(self._entries)[1]) if len(self._entries) >= FEW else 0.0

    def seconds_to_read(self, row_count: int) -> float:
        """Returns the seconds that a first step takes longer because it reads so many rows instead of one."""
        cost = self._costs[False]
        return cost(row_count) - cost(1) if cost.is_known and row_count > 1 else 0.0

    def measure(self, row_counts: Sequence[int], times: Sequence[float], *, is_constrained: bool) -> None:
        """Learns from a call. `times` are its start and the end of each step. `is_constrained`: whether a sequence had
        a grammar."""
        self._is_constrained = is_constrained
        cost = self._costs[is_constrained]
        if not cost.is_known:
            cost.observe(row_counts[0], times[1] - times[0])
        elif row_counts[0] <= MAX_MEASURED:
            self._entries.append(times[1] - times[0] - cost(row_counts[0]))
        for row_count, begin, end in zip(row_counts[1:], times[1:], times[2:], strict=False):
            cost.observe(row_count, end - begin)
