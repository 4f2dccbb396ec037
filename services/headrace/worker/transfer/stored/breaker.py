"""Breaker of the calls to a service that a worker can do without."""

import time
from collections.abc import Callable

SUSPENDED_SECONDS = 10.0
"""Time for which a service that failed is left alone, before a single call tries it again."""


class Breaker:
    """Decides whether a service is called. After a failure it is not for a while; then one call tries it, and the
    others wait for the outcome."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._is_broken = False
        self._suspended_until = 0.0

    def allows(self) -> bool:
        """Whether the service may be called now. The call must note its outcome."""
        if not self._is_broken:
            return True
        if self._clock() < self._suspended_until:
            return False
        self._suspended_until = self._clock() + SUSPENDED_SECONDS
        return True

    def note_success(self) -> None:
        """Notes that the service answered."""
        self._is_broken = False

    def note_failure(self) -> None:
        """Notes that the service did not answer, or not in time."""
        self._is_broken = True
        self._suspended_until = self._clock() + SUSPENDED_SECONDS
