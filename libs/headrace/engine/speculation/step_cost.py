"""Measured time of a step by its number of tokens."""

DECAY = 0.97
"""Factor by which each measurement's weight decays per new measurement."""
PRIOR_SLOPE = 0.15
"""Cost of one more token, as a share of the first token's, while only one size has been measured."""
OUTLIER = 2.0
"""Longest time that counts, as a multiple of the expected one: beyond it, something else held the processor."""
LATE_WEIGHT = 0.25
"""Weight of a measurement longer than expected. Other processes can make one longer; nothing makes one shorter."""


class StepCost:
    """A line fit to recent measurements: seconds = base + slope x tokens."""

    def __init__(self) -> None:
        self._weight = 0.0
        self._tokens = 0.0
        self._seconds = 0.0
        self._tokens_squared = 0.0
        self._product = 0.0

    @property
    def known(self) -> bool:
        return self._weight > 1

    def observe(self, token_count: int, seconds: float) -> None:
        weight = 1.0
        if self.known and seconds > (expected := self(token_count)):
            seconds, weight = min(seconds, OUTLIER * expected), LATE_WEIGHT
        weighted_count = weight * token_count
        self._weight = DECAY * self._weight + weight
        self._tokens = DECAY * self._tokens + weighted_count
        self._seconds = DECAY * self._seconds + weight * seconds
        self._tokens_squared = DECAY * self._tokens_squared + weighted_count * token_count
        self._product = DECAY * self._product + weighted_count * seconds

    def __call__(self, token_count: int) -> float:
        """Returns the seconds that a step of `token_count` tokens takes. Before any measurement, the unit is the first
        token's time."""
        if not self._weight:
            return 1 + PRIOR_SLOPE * (token_count - 1)
        mean_count, mean_seconds = self._tokens / self._weight, self._seconds / self._weight
        variance = self._tokens_squared / self._weight - mean_count**2
        if variance < 0.05:
            slope = mean_seconds / (1 / PRIOR_SLOPE + mean_count - 1)
        else:
            slope = (self._product / self._weight - mean_count * mean_seconds) / variance
        slope = min(max(slope, 0.0), mean_seconds / mean_count)
        return mean_seconds + slope * (token_count - mean_count)
