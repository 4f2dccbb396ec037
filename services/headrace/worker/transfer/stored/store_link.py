"""A worker's link to one cache that keeps KV blocks."""

import asyncio
import contextlib
import time
from collections.abc import AsyncGenerator, Iterator, Sequence

from headrace.domain.deadline import Deadline
from headrace.errors import HeadraceError
from headrace.service_clients.stored_blocks import StoredBlocksClient
from headrace.worker.transfer.stored.breaker import Breaker

LOOKUP_SECONDS = 1.0
WRITE_SECONDS = 5.0
"""Longest time that a batch may take to be written: nothing but further batches waits for it."""
PATIENCE_SECONDS = 0.5
"""Longest time that a request waits for the next blocks of its prompt."""


class StoreLink:
    """Calls the cache, each call within its time, and notes the outcome in the breaker."""

    def __init__(self, client: StoredBlocksClient, layout: str) -> None:
        self.breaker = Breaker()
        self._client = client
        self._layout = layout

    async def has(self, name: bytes) -> bool:
        """Whether the cache has a block. Raises HeadraceError."""
        with self._noted():
            count, _ = await self._client.lookup_blocks(self._layout, [name], PATIENCE_SECONDS)
        return count > 0

    async def wanted(self, names: Sequence[bytes]) -> list[bytes]:
        """Returns the blocks that the cache would keep. Raises HeadraceError."""
        with self._noted():
            _, wanted = await self._client.lookup_blocks(self._layout, names, LOOKUP_SECONDS)
        return wanted

    async def store(self, records: Sequence[tuple[bytes, bytes]], seconds: float) -> int:
        """Hands over records of blocks by their names. `seconds`: time in which one of them is computed. Returns the
        number that was kept. Raises HeadraceError."""
        with self._noted():
            return await self._client.store_blocks(self._layout, records, seconds, WRITE_SECONDS)

    async def fetch(
        self, names: Sequence[bytes], deadline: Deadline, seconds: float
    ) -> AsyncGenerator[list[bytes], None]:
        """Yields records of the blocks at the beginning of `names` that the cache has. Raises HeadraceError, and
        TimeoutError where the next ones do not come in PATIENCE_SECONDS, all of them in `seconds`, or before the
        deadline. Time that the reader takes does not count."""
        packets = self._client.fetch_blocks(self._layout, names, deadline.remaining + PATIENCE_SECONDS)
        async with contextlib.aclosing(packets):
            while True:
                started = time.monotonic()
                records = await self._next(packets, deadline, seconds)
                seconds -= time.monotonic() - started
                if records is None:
                    return
                yield records

    async def _next(
        self, packets: AsyncGenerator[list[bytes], None], deadline: Deadline, seconds: float
    ) -> list[bytes] | None:
        try:
            async with asyncio.timeout(max(0.0, min(PATIENCE_SECONDS, seconds, deadline.remaining))):
                records = await anext(packets, None)
        except TimeoutError:
            # A request that has no time left says nothing about the cache.
            if not deadline.expired:
                self.breaker.note_failure()
            raise
        except HeadraceError:
            self.breaker.note_failure()
            raise
        self.breaker.note_success()
        return records

    @contextlib.contextmanager
    def _noted(self) -> Iterator[None]:
        try:
            yield
        except HeadraceError:
            self.breaker.note_failure()
            raise
        self.breaker.note_success()
