"""Requests that came for one model within the last minutes, and the flow to be expected."""

import math
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

BUCKET_SECONDS = 5.0
BUCKET_COUNT = 60
"""Buckets that are kept: five minutes."""
RECENT_COUNT = 6
"""Buckets that make the present rate: half a minute."""
MIN_TREND_COUNT = 12
"""Buckets without which no trend is seen."""
CERTAIN = 2.0
"""Standard errors by which a trend must exceed zero; only what is beyond them counts."""


@dataclass(slots=True)
class _Bucket:
    request_count: int = 0
    token_count: float = 0.0
    square_sum: float = 0.0
    """Sum of the squares of the requests' token counts."""


@dataclass(frozen=True, slots=True)
class Flow:
    """Requests that come per second, and the prompt tokens of each that have to be computed."""

    request_rate: float = 0.0
    mean_tokens: float = 0.0
    mean_square: float = 0.0
    """Mean of the squares of their token counts."""

    @property
    def token_rate(self) -> float:
        """Prompt tokens per second."""
        return self.request_rate * self.mean_tokens


class Arrivals:
    """Requests by the time when they came, in buckets."""

    def __init__(self) -> None:
        self._buckets: deque[_Bucket] = deque(maxlen=BUCKET_COUNT)
        self._bucket = -1
        self.last = -math.inf
        """Time of the last request."""

    def note(self, token_count: int, now: float) -> None:
        """Counts a request whose prompt lacks so many tokens."""
        self._advance(now)
        self.last = now
        bucket = self._buckets[-1]
        bucket.request_count += 1
        bucket.token_count += token_count
        bucket.square_sum += token_count**2

    def expected(self, now: float, ahead_seconds: float) -> Flow:
        """Returns the flow to be expected in a while: the present one, and a trend upwards where it is certain. A trend
        downwards is not believed before it has happened."""
        self._advance(now)
        whole = list(self._buckets)[:-1]
        recent = whole[-RECENT_COUNT:]
        count = sum(bucket.request_count for bucket in recent)
        if not count:
            return Flow()
        rate = count / (len(recent) * BUCKET_SECONDS)
        slope = _certain_slope([bucket.request_count for bucket in whole]) / BUCKET_SECONDS**2
        tokens = sum(bucket.token_count for bucket in recent)
        squares = sum(bucket.square_sum for bucket in recent)
        return Flow(rate + slope * ahead_seconds, tokens / count, squares / count)

    def _advance(self, now: float) -> None:
        bucket = int(now // BUCKET_SECONDS)
        if self._bucket < 0:
            self._bucket = bucket - 1
        for _ in range(min(bucket - self._bucket, BUCKET_COUNT)):
            self._buckets.append(_Bucket())
        self._bucket = max(self._bucket, bucket)


def _certain_slope(values: Sequence[float]) -> float:
    """Fits a line by least squares and returns what its slope exceeds its error by, per bucket; 0 where that is
    nothing."""
    count = len(values)
    if count < MIN_TREND_COUNT:
        return 0.0
    middle, mean = (count - 1) / 2, sum(values) / count
    spread = sum((index - middle) ** 2 for index in range(count))
    slope = sum((index - middle) * (value - mean) for index, value in enumerate(values)) / spread
    left_over = sum((value - mean - slope * (index - middle)) ** 2 for index, value in enumerate(values))
    error = math.sqrt(left_over / (count - 2) / spread)
    return max(0.0, slope - CERTAIN * error)
