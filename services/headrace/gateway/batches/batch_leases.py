"""Leases of batches, in a key-value bucket of NATS: each batch is run by one gateway at a time.

A gateway that is gone does not renew its lease. Others see for how long an entry has not changed, by their own clocks.
"""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass

from headrace.bus.bus import BATCHES, Bus, StoreAway
from headrace.v1.events_pb2 import BatchHeld

RENEW_SECONDS = 1.0
EXPIRY_SECONDS = 5.0
"""Seconds without renewal after which another gateway may take a batch over."""
STORE_SECONDS = 0.5
"""Seconds that NATS has to answer."""


@dataclass(slots=True)
class _Seen:
    revision: int
    since: float
    """Time at which this revision was first seen, or written. Monotonic seconds."""
    fence: int = 0
    is_own: bool = False


class BatchLeases:
    """Claims batches, renews what it holds, and gives it up."""

    def __init__(self, bus: Bus, holder: str, clock: Callable[[], float] = time.monotonic) -> None:
        """`holder`: incarnation of this gateway."""
        self._bus = bus
        self._holder = holder
        self._clock = clock
        self._seen: dict[str, _Seen] = {}

    def holds(self, batch_id: str) -> bool:
        """Whether nobody else can have taken the batch over yet."""
        seen = self._seen.get(batch_id)
        return seen is not None and seen.is_own and self._clock() - seen.since < EXPIRY_SECONDS

    async def claim(self, batch_id: str, known_fence: int) -> int | None:
        """Returns the fence under which this gateway may run a batch, larger than `known_fence` and all before, or None
        while another runs it. Raises StoreAway."""
        async with _answering():
            found = await self._bus.read(batch_id, BatchHeld, BATCHES)
            revision, held = (0, BatchHeld()) if found is None else (found.revision, found.message)
            seen = self._seen.get(batch_id)
            if seen is None or seen.revision != revision:
                seen = self._seen[batch_id] = _Seen(revision, self._clock())
            is_free = held.gateway in ("", self._holder) or self._clock() - seen.since >= EXPIRY_SECONDS
            if not is_free:
                return None
            fence = max(held.fence, known_fence) + 1
            return fence if await self._write(batch_id, fence, revision) else None

    async def renew(self, batch_id: str) -> bool:
        """Renews a lease that this gateway holds. Returns whether it still does. Raises StoreAway."""
        seen = self._seen.get(batch_id)
        if seen is None or not seen.is_own:
            return False
        async with _answering():
            if await self._write(batch_id, seen.fence, seen.revision):
                return True
            found = await self._bus.read(batch_id, BatchHeld, BATCHES)
            if found is None:  # The store lost its data.
                return await self._write(batch_id, seen.fence, 0)
            if found.message.gateway == self._holder:  # The answer to an earlier renewal was lost.
                return await self._write(batch_id, seen.fence, found.revision)
            self._seen.pop(batch_id, None)
            return False

    async def release(self, batch_id: str) -> None:
        """Gives a batch up, so that nobody has to wait for the end of its lease. Raises StoreAway."""
        seen = self._seen.pop(batch_id, None)
        if seen is not None and seen.is_own:
            async with _answering():
                held = BatchHeld(batch_id=batch_id, fence=seen.fence)
                await self._bus.swap(batch_id, held, seen.revision, BATCHES)

    def forget_others(self, batch_ids: set[str]) -> None:
        """Forgets the leases of batches that are not among those that are open."""
        for batch_id in self._seen.keys() - batch_ids:
            del self._seen[batch_id]

    async def _write(self, batch_id: str, fence: int, revision: int) -> bool:
        # Counted from before the write: others count from when they see it.
        now = self._clock()
        held = BatchHeld(gateway=self._holder, batch_id=batch_id, fence=fence)
        written = await self._bus.swap(batch_id, held, revision, BATCHES)
        if written is None:
            return False
        self._seen[batch_id] = _Seen(written, now, fence, is_own=True)
        return True


@contextlib.asynccontextmanager
async def _answering() -> AsyncIterator[None]:
    """Opens a block in which NATS must answer in time, or counts as away."""
    try:
        async with asyncio.timeout(STORE_SECONDS):
            yield
    except TimeoutError:
        raise StoreAway("the store of NATS does not answer in time") from None
