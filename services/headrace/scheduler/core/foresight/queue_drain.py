"""Predicts how fast the queue of a model moves, and when a refused request should come back."""

from collections import deque

from headrace.scheduler.core.foresight.fleet_pace import FleetPace
from headrace.scheduler.core.queueing.work import Work

MIN_COMPLETIONS = 8
"""Requests that must have ended before what they took is believed."""
MIN_SECONDS = 5.0
"""Seconds that these ends must span: while a crowd arrives, they only show how fast it is taken in."""
HISTORY = 256
"""Number of newest completions that count."""
HISTORY_SECONDS = 30.0
SPEED_LIMIT = 5.0
"""Factor by which the pace is corrected at most, up or down: beyond it what ended is no measure of what waits."""
UNKNOWN_SECONDS = 1.0
"""Seconds of a request, where no worker is known."""
MIN_RETRY_SECONDS = 0.5
MAX_RETRY_SECONDS = 600.0


class QueueDrain:
    """Predicts by the pace of the workers, and corrects it by what the requests that ended really took."""

    def __init__(self) -> None:
        self.pace: FleetPace | None = None
        """Pace at the last look. None: no worker serves the model."""
        self._ends: deque[tuple[float, Work]] = deque(maxlen=HISTORY)
        self._promised_until = 0.0
        """Time at which the last refused request is to come back: they are spread out one after the other."""

    def note_end(self, work: Work, waiting_count: int, now: float) -> None:
        """Notes that a request ended after so much work, which makes room for another. With none waiting, ends only
        show how fast requests come."""
        if waiting_count:
            self._ends.append((now, work))
        else:
            self._ends.clear()

    def forget_promises(self) -> None:
        """Drops the promises to refused requests: none waits any more, so that there is room for all."""
        self._promised_until = 0.0

    def wait_seconds(self, ahead: Work, now: float) -> float:
        """Predicts the seconds after which a request has a place before which so much work waits in the queue."""
        if self.pace is None:
            return UNKNOWN_SECONDS
        return min(MAX_RETRY_SECONDS, self.pace.seconds(ahead) / self._speed(now))

    def appointment(self, work: Work, excess_seconds: float, now: float) -> float:
        """Predicts the seconds after which one more refused request is served in time. Each gets another time, so that
        they do not all come back at once. `excess_seconds`: seconds by which it would be late if it waited now."""
        gap = self.wait_seconds(work, now)
        promised = max(self._promised_until, now + excess_seconds) + gap
        self._promised_until = min(promised, now + MAX_RETRY_SECONDS)
        return max(MIN_RETRY_SECONDS, self._promised_until - now)

    def _speed(self, now: float) -> float:
        """Returns the seconds of predicted work that the workers do in a second."""
        while self._ends and now - self._ends[0][0] > HISTORY_SECONDS:
            self._ends.popleft()
        span = now - self._ends[0][0] if self._ends else 0.0
        if len(self._ends) < MIN_COMPLETIONS or span < MIN_SECONDS or self.pace is None:
            return 1.0
        # The first end begins the time in which the others did their work.
        done = sum(self.pace.seconds(work) for _, work in self._ends) - self.pace.seconds(self._ends[0][1])
        return min(SPEED_LIMIT, max(1 / SPEED_LIMIT, done / span))
