"""Leases of batches: each batch is run by one gateway at a time. A gateway that is gone does not renew its own."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable

from headrace.bus.bus import BATCHES, Bus, StoreAway
from headrace.bus.lease import LeaseKind, LeaseTable
from headrace.v1.events_pb2 import BatchHeld

RENEW_SECONDS = 1.0
EXPIRY_SECONDS = 5.0
"""Seconds without renewal after which another gateway may take a batch over."""
STORE_SECONDS = 0.5
"""Seconds that NATS has to answer."""
KIND = LeaseKind(BATCHES, BatchHeld, "gateway", "batch_id")


class BatchLeases:
    """Claims, renews and releases batches. NATS counts as away when it does not answer in time."""

    def __init__(self, bus: Bus, holder: str, clock: Callable[[], float] = time.monotonic) -> None:
        """`holder`: incarnation of this gateway."""
        self._table = LeaseTable(bus, KIND, holder, EXPIRY_SECONDS, clock)
        self.holds = self._table.is_safe

    async def claim(self, batch_id: str, known_fence: int) -> int | None:
        """Returns the fence under which this gateway may run a batch, larger than `known_fence` and all before, or None
        while another runs it. Raises StoreAway."""
        async with _answering():
            lease = await self._table.claim(batch_id, lambda: known_fence)
            return lease.fence if lease is not None and lease.is_written else None

    async def renew(self, batch_id: str) -> bool:
        """Renews a lease that this gateway holds. Returns whether it still does. Raises StoreAway."""
        lease = self._table.known.get(batch_id)
        if lease is None or not lease.is_written:
            return False
        async with _answering():
            if await self._table.renew(batch_id):
                return True
            found = await self._table.read(batch_id)
            # The store lost its data, or the answer to an earlier renewal was lost.
            if not found.revision or found.holder == self._table.holder:
                return await self._table.write(batch_id, lease.fence, found.revision)
            self._table.known.pop(batch_id, None)
            return False

    async def release(self, batch_id: str) -> None:
        """Releases a batch at once instead of letting its lease expire. Raises StoreAway."""
        async with _answering():
            await self._table.release(batch_id)

    def forget_others(self, batch_ids: set[str]) -> None:
        """Forgets the leases of batches that are not among the open ones."""
        for batch_id in self._table.known.keys() - batch_ids:
            del self._table.known[batch_id]


@contextlib.asynccontextmanager
async def _answering() -> AsyncIterator[None]:
    """Raises StoreAway if the block takes longer than STORE_SECONDS."""
    try:
        async with asyncio.timeout(STORE_SECONDS):
            yield
    except TimeoutError:
        raise StoreAway("the store of NATS does not answer in time") from None
