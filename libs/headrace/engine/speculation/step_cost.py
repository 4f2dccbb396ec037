"""Seconds of a step by its number of rows: a table measured at load, corrected by the steps that follow."""

from bisect import bisect_left
from collections import deque
from collections.abc import Mapping
from itertools import accumulate

ROW_COUNTS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32)
"""Row counts of the table. Steps of other sizes are interpolated, and count for the nearest."""
PRIOR_SLOPE = 0.15
"""Cost of one more row, as a share of the first row's, where nothing was measured, or not for long: a hope that is
worth a try, since a wrong cost that keeps steps of a size from being taken would never be corrected."""
MAX_HOPEFUL = 4
"""Rows beyond which there is no such hope: steps of batches are measured as they grow."""
WINDOW = 5
"""Latest steps of a size that its cost follows from: their lower median, because other processes make a step longer
and nothing makes it shorter."""
SHIFT = 1.3
"""Factor between measured and expected seconds from which on the machine is taken to have changed, once several steps
in a row say so."""
SHIFT_COUNT = 2
LIFETIME = 64
"""Steps after which a cost that was not measured again is stale."""
FEW = 2
"""Steps that make a stale cost fresh."""
MEMORY = 256
"""Steps after which a size counts as never measured, at load or since: a slow spell is forgotten."""


class _Knot:
    """A row count of the table."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        """Seconds at load."""
        self.ratios: deque[float] = deque(maxlen=WINDOW)
        """Seconds of the latest steps, as multiples of those in the table."""
        self.measured_at = 0
        self.fresh_count = FEW
        """Steps since the cost was last stale."""

    def ratio(self) -> float:
        """Returns the latest steps' seconds as a multiple of those in the table. There must have been one."""
        return _lower_median(self.ratios)

    def renew(self, factor: float) -> None:
        """Forgets all steps but what they come to, times `factor`, and asks for new ones."""
        if self.ratios:
            ratio = self.ratio()
            self.ratios.clear()
            self.ratios.append(ratio * factor)
        self.fresh_count = 0


class StepCost:
    """A curve that never falls. A change that comes with steps of one size is taken to concern all sizes, until steps
    of those show otherwise: `is_stale` says which are due."""

    def __init__(self, table: Mapping[int, float] | None = None) -> None:
        """`table` has seconds by row count. Without it, costs are in units of a step of one row until the first step,
        and rise by PRIOR_SLOPE per row."""
        self.is_known = bool(table)
        """Whether costs are in seconds."""
        measured = table or {rows: 1 + PRIOR_SLOPE * (rows - 1) for rows in ROW_COUNTS}
        self._rows = sorted(measured)
        self._knots = [_Knot(seconds) for seconds in _plausible(self._rows, [measured[rows] for rows in self._rows])]
        self._surprises: deque[float] = deque(maxlen=SHIFT_COUNT)
        self._step_count = 0
        self._curve: list[float] = []
        """Seconds by row count from 0, as far as they were asked for since the last change."""

    def observe(self, row_count: int, seconds: float) -> None:
        """Corrects the cost by a step."""
        self._step_count += 1
        knot = self._knots[self._nearest(row_count)]
        expected = self(row_count) / self._at_load(row_count) if self.is_known else None
        self.is_known = True
        is_known = knot.ratios and not self._is_old(knot)
        self._surprises.append(seconds / self(row_count) if is_known else 1.0)
        if knot.fresh_count < FEW or self._is_old(knot):
            self._refresh(knot)
        if expected is not None and not knot.ratios and self._step_count - knot.measured_at <= MEMORY:
            # One step alone says little, since it may have been disturbed; but more than a hope.
            knot.ratios.append(expected)
        # The curve may be interpolated: the knot is taken to be off by as much as the step.
        knot.ratios.append(seconds / self._at_load(row_count))
        knot.measured_at = self._step_count
        self._curve = []
        if len(self._surprises) == SHIFT_COUNT:
            self._follow(knot)

    def pass_time(self) -> None:
        """Counts a step that was not measured."""
        self._step_count += 1

    def is_stale(self, row_count: int) -> bool:
        """Whether steps of this size should be measured before they are compared with others."""
        knot = self._knots[self._nearest(row_count)]
        return knot.fresh_count < FEW or self._is_old(knot)

    def __call__(self, row_count: int) -> float:
        """Returns the seconds that a step of `row_count` rows takes."""
        if row_count >= len(self._curve):
            self._curve = self._compute(max(row_count + 1, 2 * self._rows[-1]))
        return self._curve[row_count]

    def _is_old(self, knot: _Knot) -> bool:
        return self._step_count - knot.measured_at > LIFETIME

    @staticmethod
    def _refresh(knot: _Knot) -> None:
        if knot.fresh_count >= FEW:
            knot.fresh_count = 0
        if knot.fresh_count == 0:
            knot.ratios.clear()
        knot.fresh_count += 1

    def _follow(self, knot: _Knot) -> None:
        """Lets all other sizes follow a change that several steps have shown."""
        if min(self._surprises) < SHIFT and max(self._surprises) > 1 / SHIFT:
            return
        factor = _lower_median(self._surprises)
        latest = knot.ratios[-1]
        for other in self._knots:
            other.renew(factor)
        knot.ratios.clear()
        knot.ratios.append(latest)
        knot.fresh_count = FEW
        self._surprises.clear()

    def _nearest(self, row_count: int) -> int:
        index = bisect_left(self._rows, row_count)
        if index == len(self._rows):
            return index - 1
        is_before = index and row_count - self._rows[index - 1] < self._rows[index] - row_count
        return index - 1 if is_before else index

    def _at_load(self, row_count: int) -> float:
        return _interpolate(self._rows, [knot.seconds for knot in self._knots], row_count)

    def _compute(self, size: int) -> list[float]:
        seconds = [knot.seconds * ratio for knot, ratio in zip(self._knots, self._ratios(), strict=True)]
        rising = list(accumulate(self._hopeful(seconds), max))
        return [_interpolate(self._rows, rising, row_count) for row_count in range(size)]

    def _hopeful(self, seconds: list[float]) -> list[float]:
        """Lowers the costs of steps larger than the latest one where nothing was measured for long."""
        index = max(range(len(self._knots)), key=lambda index: self._knots[index].measured_at)
        first, base = self._rows[index], seconds[index]
        return [
            min(cost, base * (1 + PRIOR_SLOPE * (rows - first) / first))
            if MAX_HOPEFUL >= first < rows and self._step_count - knot.measured_at > MEMORY
            else cost
            for rows, cost, knot in zip(self._rows, seconds, self._knots, strict=True)
        ]

    def _ratios(self) -> list[float]:
        """Returns the ratio of each knot: where there is none, that of the nearest one that has one."""
        measured = [(rows, knot) for rows, knot in zip(self._rows, self._knots, strict=True) if knot.ratios]
        latest = max((knot.measured_at for _, knot in measured), default=0)
        known = [(rows, knot.ratio()) for rows, knot in measured if latest - knot.measured_at <= MEMORY]
        if not known:
            return [1.0] * len(self._knots)
        return [min(known, key=lambda pair: abs(pair[0] - rows))[1] for rows in self._rows]


def _plausible(rows: list[int], seconds: list[float]) -> list[float]:
    """Lowers what was measured too high: more rows never take less time, nor more time for each of them."""
    rising = list(accumulate(reversed(seconds), min))[::-1]
    for index in range(1, len(rows)):
        rising[index] = min(rising[index], rising[index - 1] * rows[index] / rows[index - 1])
    return rising


def _interpolate(rows: list[int], seconds: list[float], row_count: int) -> float:
    """Returns the seconds between two knots, or beyond the last by the slope between the last two."""
    if row_count <= rows[0] or len(rows) == 1:
        return seconds[0] * (1 if row_count <= rows[0] else row_count / rows[0])
    index = min(bisect_left(rows, row_count), len(rows) - 1)
    before, after = rows[index - 1], rows[index]
    return seconds[index - 1] + (seconds[index] - seconds[index - 1]) * (row_count - before) / (after - before)


def _lower_median(values: deque[float]) -> float:
    return sorted(values)[(len(values) - 1) // 2]
