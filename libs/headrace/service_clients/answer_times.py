"""AnswerTimes of a service, which say when an answer is late."""

MAX_PATIENCE, MIN_PATIENCE = 1.0, 0.25
"""Bounds of the seconds after which an answer is late. A quarter is what other clients may notice of anything."""
LATE_FACTOR = 10.0
"""Multiple of the usual time after which an answer is late."""
NEWEST_SHARE = 0.1
"""Share of the newest time in the usual one."""


class AnswerTimes:
    """Moving average of the seconds that answers took."""

    def __init__(self) -> None:
        self._usual: float | None = None

    @property
    def patience(self) -> float:
        """Seconds after which an answer is late: as many as there may be until one is known."""
        if self._usual is None:
            return MAX_PATIENCE
        return min(MAX_PATIENCE, max(MIN_PATIENCE, LATE_FACTOR * self._usual))

    def note(self, seconds: float) -> None:
        """Notes an answer."""
        before = seconds if self._usual is None else self._usual
        self._usual = before + NEWEST_SHARE * (seconds - before)
