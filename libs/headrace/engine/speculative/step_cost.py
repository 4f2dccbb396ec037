"""How long a step takes by its number of tokens, as measured."""

DECAY = 0.97
"""What a measurement still counts after the next one."""
PRIOR_SLOPE = 0.15
"""Of one more token, as a share of the first one's time, while only one size was seen."""
OUTLIER = 3.0
"""Longer than this many times what was expected is something else's doing."""


class StepCost:
    """A line through the latest measurements: seconds = base + slope x tokens."""

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
        if self.known:
            seconds = min(seconds, OUTLIER * self(token_count))
        values = (1.0, token_count, seconds, token_count * token_count, token_count * seconds)
        sums = (self._weight, self._tokens, self._seconds, self._tokens_squared, self._product)
        self._weight, self._tokens, self._seconds, self._tokens_squared, self._product = (
            DECAY * total + value for total, value in zip(sums, values, strict=True)
        )

    def __call__(self, token_count: int) -> float:
        """Seconds that a step of `token_count` tokens takes. Before any measurement, in units of the first token."""
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
