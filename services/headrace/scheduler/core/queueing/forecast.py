"""Predicts how fast the queue of a model moves, and when a rejected request should come back."""

from collections import deque

MIN_COMPLETIONS = 8
"""Requests that must have ended before their rate is trusted."""
MIN_SECONDS = 5.0
"""Seconds that these ends must span: while a crowd arrives, the rate only shows how fast it is taken in."""
HISTORY = 256
"""Number of newest completions from which the rate is computed."""
HISTORY_SECONDS = 30.0
MIN_RETRY_SECONDS = 0.5
MAX_RETRY_SECONDS = 600.0


class Forecast:
    """Learns from requests that ended. Before that it uses the estimate from the workers' reports."""

    def __init__(self) -> None:
        self._completions: deque[float] = deque(maxlen=HISTORY)
        self._promised_until = 0.0
        """Time at which the last rejected request is to come back: they are spread out one after the other."""

    def note_completion(self, now: float, waiting_count: int) -> None:
        """Notes that a request ended, which makes room for another. With none waiting, the rate at which requests end
        is only that at which they come."""
        if waiting_count:
            self._completions.append(now)
        else:
            self._completions.clear()

    def rate(self, nominal: float, now: float) -> float:
        """Returns the requests that end per second; `nominal` until enough have ended lately."""
        while self._completions and now - self._completions[0] > HISTORY_SECONDS:
            self._completions.popleft()
        span = now - self._completions[0] if self._completions else 0.0
        if len(self._completions) < MIN_COMPLETIONS or span < MIN_SECONDS:
            return nominal
        return len(self._completions) / span

    def wait_seconds(self, waiting_count: int, nominal: float, now: float) -> float:
        """Predicts the seconds after which `waiting_count` requests have a place."""
        return min(MAX_RETRY_SECONDS, waiting_count / max(self.rate(nominal, now), 1e-6))

    def appointment(self, nominal: float, now: float) -> float:
        """Predicts the seconds after which one more rejected request finds room in a queue that is full now. Each gets
        another time, so that they do not all come back at once."""
        gap = 1 / max(self.rate(nominal, now), 1e-6)
        self._promised_until = max(self._promised_until, now) + gap
        return min(MAX_RETRY_SECONDS, max(MIN_RETRY_SECONDS, self._promised_until - now))
