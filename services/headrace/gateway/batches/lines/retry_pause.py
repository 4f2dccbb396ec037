"""Time to wait before a request of a batch is tried again."""

import random
from collections.abc import Mapping

FIRST_SECONDS, MAX_SECONDS = 0.5, 30.0
MAX_FAILURES = 3
"""Maximum number of tries of a request that ends with an error of the platform other than temporary unavailability."""
RATE_LIMITED, UNAVAILABLE = 429, 503
_FAILURES = frozenset({408, 499, 500, 502, 504})


def retry_pause(status: int, headers: Mapping[str, str], try_count: int) -> float | None:
    """Returns the seconds to wait after so many tries that ended with this status, or None if another would change
    nothing. A request that cannot be served now is tried for as long as its batch lasts."""
    if status == RATE_LIMITED:
        return None if headers.get("x-should-retry") == "false" else _told(headers) or _longer(try_count)
    if status == UNAVAILABLE:
        return max(_told(headers) or 0.0, _longer(try_count))
    return _longer(try_count) if status in _FAILURES and try_count < MAX_FAILURES else None


def _told(headers: Mapping[str, str]) -> float | None:
    """Returns the seconds that the answer asks to wait, if it does, bounded."""
    text = headers.get("retry-after-ms", "")
    return min(int(text) / 1000, MAX_SECONDS) if text.isdigit() else None


def _longer(try_count: int) -> float:
    """Returns twice as long a time after each try, and not the same for all."""
    return float(min(FIRST_SECONDS * 2 ** min(try_count, 10), MAX_SECONDS) * random.uniform(0.5, 1.0))  # noqa: S311 - no secret
