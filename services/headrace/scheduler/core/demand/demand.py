"""Number of workers that one model needs."""

import math
from collections import deque

from headrace.scheduler.core.demand.arrivals import Arrivals
from headrace.scheduler.core.demand.measured_load import Capacity, MeasuredLoad
from headrace.scheduler.core.demand.need import Need, Outlook, needs
from headrace.scheduler.core.demand.scaling_decision import ScalingDecision
from headrace.scheduler.core.demand.scaling_terms import ScalingTerms
from headrace.scheduler.core.demand.start_times import StartTimes

LOOK_SECONDS = 0.5
"""Seconds between two looks at all workers."""
STALE_SECONDS = 5.0
"""Seconds after a look for which the number holds."""
FOLLOW_SECONDS = 3.0
"""Seconds after the last word of the scheduler that leads the model after which this one decides."""
DECISION_COUNT = 64
"""Newest decisions that are kept."""


class Demand:
    """Decides how many workers are wanted: more at once, fewer only after fewer have sufficed for a while.

    Workers that are being started need no count of their own: what is wanted is a total and no step, so it stays the
    same until they are there. While the figures of any worker are unknown, the number does not fall.
    """

    def __init__(self, terms: ScalingTerms) -> None:
        self.wanted: int | None = None
        """Workers that are wanted. None: no worker was seen yet, nor any request."""
        self.decisions: deque[ScalingDecision] = deque(maxlen=DECISION_COUNT)
        self.load: MeasuredLoad | None = None
        """Load at the last look."""
        self.needs: list[Need] = []
        """Needs by that load."""
        self.looked = -math.inf
        self._led = -math.inf
        """Time of the last word of the scheduler that leads the model."""
        self._terms = terms
        self._arrivals = Arrivals()
        self._starts = StartTimes(terms.start_seconds)
        self._capacity: Capacity | None = None
        self._enough: deque[tuple[float, int]] = deque()
        """Numbers that would have sufficed within the last while, by time, none smaller than a later one."""
        self._since = math.inf
        """Time since which the numbers that would have sufficed are known."""

    @property
    def start_seconds(self) -> float:
        """Expected time until a new worker is ready."""
        return self._starts.seconds

    def count_for(self, need: Need) -> int:
        """Returns the workers that one need alone would want."""
        return need.count_at(self._terms.target_use)

    def is_fresh(self, now: float) -> bool:
        """Whether the number is known, and was looked at lately."""
        return self.wanted is not None and now - self.looked < STALE_SECONDS

    def note_arrival(self, missing_token_count: int, now: float) -> None:
        """Counts a request whose prompt lacks so many tokens on every worker. The first after a while in which no
        worker was wanted wants one at once."""
        self._arrivals.note(missing_token_count, now)
        if self.wanted == 0:
            self._change(1, "arrival", "a request came while there was no worker", "it would get no answer", now)

    def adopt(self, count: int, now: float) -> None:
        """Wants what the scheduler that leads the model wants. After that one is gone, fewer are wanted only when they
        have sufficed for a while again."""
        if self.wanted != count:
            self._change(count, "leader", "the scheduler that leads the model wants it", "", now)
        self._led = self._since = now

    def is_due(self, now: float) -> bool:
        """Whether it is time to look at the workers again."""
        return now - self.looked >= LOOK_SECONDS

    def look(self, load: MeasuredLoad, mean_output: float, now: float) -> None:
        """Takes in the load of the model, and the mean output tokens of a request, and decides."""
        self.load, self.looked = load, now
        self._capacity = load.capacity or self._capacity
        if self.wanted is None:
            if self._capacity is None and not load.waiting_count:
                return
            self.wanted, self._since = max(1, load.worker_count), now
        self._starts.look(self.wanted, load.worker_count, now)
        if self._capacity is None:
            return  # Nothing is known of what a worker can do: the first one shows it.
        self.needs = needs(load, self._capacity, self._outlook(mean_output, now))
        if self.needs and now - self._led > FOLLOW_SECONDS:
            self._decide(load, self.wanted, now)

    def _outlook(self, mean_output: float, now: float) -> Outlook:
        seconds = self._starts.seconds
        flow = self._arrivals.expected(now, seconds)
        return Outlook(flow, mean_output, seconds, self._terms.first_token_seconds)

    def _decide(self, load: MeasuredLoad, wanted: int, now: float) -> None:
        more, need = self._most(self._terms.target_use)
        enough, _ = self._most(self._terms.low_use)
        least = self._least_lately(max(1, enough), now)
        idle = self._idle_seconds(load, now)
        if idle > self._terms.idle_seconds:
            if wanted and not load.unsure_count:
                self._change(0, "idle", f"no request came for {idle:.0f} s", self._cost(wanted), now)
        elif more > wanted:
            self._change(more, need.signal, need.text, f"{wanted} would not be enough", now)
        elif load.unsure_count:
            return
        elif least < wanted and now - self._since >= self._terms.settle_seconds:
            reason = f"{least} sufficed for {self._terms.settle_seconds:.0f} s: {need.text}"
            self._change(least, need.signal, reason, self._cost(wanted - least), now)

    def _most(self, use: float) -> tuple[int, Need]:
        """Returns the workers needed at such a use, and for what."""
        counts = [(need.count_at(use), need) for need in self.needs]
        return max(counts, key=lambda pair: pair[0])

    def _least_lately(self, enough: int, now: float) -> int:
        """Returns the largest of the numbers that would have sufficed within the last while."""
        while self._enough and self._enough[-1][1] <= enough:
            self._enough.pop()
        self._enough.append((now, enough))
        while self._enough[0][0] < now - self._terms.settle_seconds:
            self._enough.popleft()
        return self._enough[0][1]

    def _idle_seconds(self, load: MeasuredLoad, now: float) -> float:
        if load.waiting_count or load.running_count:
            return 0.0
        return now - max(self._arrivals.last, self._since)

    def _cost(self, count: int) -> str:
        price = self._capacity.hourly_price if self._capacity else 0.0
        idle = f"{count} more would run than needed"
        return f"{idle}, at {count * price:.2f} an hour" if price else idle

    def _change(self, after: int, signal: str, reason: str, otherwise: str, now: float) -> None:
        self.decisions.append(ScalingDecision(now, self.wanted or 0, after, signal, reason, otherwise))
        self.wanted = after
