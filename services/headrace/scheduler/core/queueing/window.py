"""Time that a batch waits to fill. Zero when no request is likely to come."""

ARRIVAL_WEIGHT = 0.2
"""Weight of the newest gap in the moving average."""


class BatchWindow:
    """Adapts to the rate of arrivals: the time in which a batch is expected to fill, at most `max_seconds`."""

    def __init__(self, max_seconds: float, target_size: int) -> None:
        self._max_seconds = max_seconds
        self._target_size = target_size
        self._gap: float | None = None
        self._last_arrival: float | None = None

    def observe_arrival(self, now: float) -> None:
        """Notes an arrival. `now` in monotonic seconds."""
        if self._last_arrival is not None:
            gap = now - self._last_arrival
            self._gap = gap if self._gap is None else (1 - ARRIVAL_WEIGHT) * self._gap + ARRIVAL_WEIGHT * gap
        self._last_arrival = now

    def seconds(self, waiting_count: int, worker_idle: bool) -> float:
        """Returns the seconds after the oldest waiting request's arrival at which the batch should go."""
        if worker_idle or self._gap is None or self._gap > self._max_seconds:
            return 0.0
        missing = max(0, self._target_size - waiting_count)
        return min(self._max_seconds, missing * self._gap)
