"""Budgets that all gateways share, in a key-value bucket of NATS: read, and swapped unless another gateway was
faster."""

import asyncio
import logging
import time

from prometheus_client import Gauge

from headrace.bus.bus import LIMITS, Bus, StoreAway
from headrace.gateway.access.limits.key_budget import KeyBudget
from headrace.gateway.access.limits.translation import to_budget, to_message
from headrace.v1.events_pb2 import BudgetChanged

STORE_SECONDS = 0.5
"""Seconds that NATS has to answer, while requests wait."""
PAUSE_SECONDS = 1.0
"""Seconds for which NATS is not asked again after it did not answer."""

LIMITS_ALONE = Gauge("headrace_limits_alone", "1 while this gateway counts the limits of keys without others")

_log = logging.getLogger(__name__)


class SharedBudgets:
    """Reads and writes budgets, and knows whether it can."""

    def __init__(self, bus: Bus) -> None:
        self._bus = bus
        self._paused_until = 0.0

    @property
    def is_alone(self) -> bool:
        """Whether this gateway counts without the others."""
        return not self._bus.connected or time.monotonic() < self._paused_until

    async def read(self, key_id: str) -> tuple[KeyBudget, int]:
        """Returns a budget and its revision; revision 0 if there is none yet. Raises StoreAway."""
        self._check()
        try:
            async with asyncio.timeout(STORE_SECONDS):
                found = await self._bus.read(key_id, BudgetChanged, LIMITS)
        except (StoreAway, TimeoutError) as error:
            raise self._away(error) from None
        return (KeyBudget(), 0) if found is None else (to_budget(found.message), found.revision)

    async def swap(self, key_id: str, budget: KeyBudget, revision: int) -> int | None:
        """Writes a budget and returns its revision, or None if another gateway was faster. Raises StoreAway."""
        self._check()
        try:
            async with asyncio.timeout(STORE_SECONDS):
                written = await self._bus.swap(key_id, to_message(budget), revision, LIMITS)
        except (StoreAway, TimeoutError) as error:
            raise self._away(error) from None
        if self._paused_until:
            self._paused_until = 0.0
            LIMITS_ALONE.set(0)
            _log.info("the limits of keys are counted together again")
        return written

    def _check(self) -> None:
        if self.is_alone:
            raise self._away(StoreAway("not connected"))

    def _away(self, error: Exception) -> StoreAway:
        now = time.monotonic()
        if not self._paused_until:
            LIMITS_ALONE.set(1)
            _log.warning("NATS is away: this gateway counts the limits of keys alone", extra={"error": repr(error)})
        if now >= self._paused_until:
            self._paused_until = now + PAUSE_SECONDS
        return StoreAway("the budgets of keys cannot be reached")
