"""Time in which new workers of a model are ready."""

WEIGHT = 0.3
"""Weight of the newest start in the average."""
MAX_SECONDS = 3600.0
"""Longest start that counts: what takes longer waits for room, not for a worker to load."""


class StartTimes:
    """Measures, for each further worker, from the moment in which it was wanted to the one in which it was there."""

    def __init__(self, assumed_seconds: float) -> None:
        self.seconds = assumed_seconds
        """Expected time of a start."""
        self._since: dict[int, float] = {}
        """Time since which so many workers are wanted, for each number that there is not yet."""

    def look(self, wanted_count: int, worker_count: int, now: float) -> None:
        """Takes in the numbers of wanted and of present workers."""
        for number, since in list(self._since.items()):
            if number <= worker_count and now - since <= MAX_SECONDS:
                self.seconds += WEIGHT * (now - since - self.seconds)
            if number <= worker_count or number > wanted_count:
                del self._since[number]
        for number in range(worker_count + 1, wanted_count + 1):
            self._since.setdefault(number, now)
