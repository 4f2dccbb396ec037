"""KV blocks of one cache, on its disk."""

import asyncio
import itertools
import logging
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import lmdb

from headrace.cache.shared_kv.eviction_order import EvictionOrder
from headrace.cache.shared_kv.lmdb_table import LmdbTable
from headrace.cache.shared_kv.shared_kv_blocks import PACKET_BYTES
from headrace.cache.shared_kv.shared_metrics import (
    DROPPED,
    EVICTED,
    FETCHED,
    FETCHED_BYTES,
    SHARED_BLOCKS,
    SHARED_BYTES,
    STORED,
)

USABLE_SHARE = 0.7
"""Share of the map beyond which blocks give way: LMDB needs free pages to write, and consecutive ones for a block."""
EVICTED_SHARE = 1 / 64
"""Smallest share of the usable bytes that is freed at a time, so that only some writes have to free any."""
CRAMPED_SHARE = 1 / 8
"""Share that is freed where the free pages are too scattered for a block."""
MAX_QUEUED_BYTES = 64 << 20
"""Maximum bytes of records that wait to be written."""
REST_SECONDS = 30.0
"""Time after a failed write in which nothing is wanted."""
READERS = 2
CLOSE_SECONDS = 1.0

_log = logging.getLogger(__name__)
T = TypeVar("T")


class LmdbBlocks:
    """Implements `SharedBlocks`: blocks that save the least time for their bytes give way. Runs on the event loop, and
    has threads of its own to read and write in."""

    def __init__(self, table: LmdbTable, max_bytes: int) -> None:
        self._table = table
        self._usable_bytes = int(max_bytes * USABLE_SHARE)
        self._order = EvictionOrder()
        for key, size, seconds in table.entries():
            self._order.add(key, table.room_of(size), seconds)
        self._queued_bytes = 0
        self._resting_until = 0.0
        self._turn = asyncio.Lock()
        self._readers = ThreadPoolExecutor(READERS, "shared-blocks-read")
        self._writer = ThreadPoolExecutor(1, "shared-blocks-write")
        self._jobs: set[asyncio.Future[Any]] = set()
        self._is_closed = False
        self._show()

    def __len__(self) -> int:
        return len(self._order)

    async def held(self, keys: Sequence[bytes]) -> int:
        return sum(1 for _ in itertools.takewhile(self._order.__contains__, keys))

    async def wanted(self, keys: Sequence[bytes]) -> list[bytes]:
        if self._is_resting or self._queued_bytes >= MAX_QUEUED_BYTES:
            return []
        return [key for key in keys if key not in self._order]

    async def read(self, keys: Sequence[bytes]) -> list[bytes]:
        run: list[bytes] = []
        size = 0
        for key in keys:
            if key not in self._order or (run and size + self._order.size_of(key) > PACKET_BYTES):
                break
            run.append(key)
            size += self._order.size_of(key)
        if not run:
            return []
        # The end of a prompt gives way before its beginning, without which it is worth nothing.
        for key in reversed(run):
            self._order.use(key)
        try:
            records = await self._run(self._readers, lambda: self._table.read(run))
        except (OSError, lmdb.Error) as error:
            _log.warning("KV blocks of the store cannot be read", extra={"reason": str(error)})
            return []
        FETCHED.inc(len(records))
        FETCHED_BYTES.inc(sum(map(len, records)))
        return records

    async def write(self, records: Sequence[tuple[bytes, bytes]], seconds: float = 0.0) -> int:
        size = sum(self._table.room_of(len(record)) for _, record in records)
        reason = self._refusal(size)
        if reason or not records:
            DROPPED.labels(reason=reason or "empty").inc(len(records))
            return 0
        self._queued_bytes += size
        # A caller that gives up must not leave a write behind that nothing accounts for.
        job = asyncio.ensure_future(self._write(dict(records), size, seconds))
        self._jobs.add(job)
        job.add_done_callback(self._jobs.discard)
        return await asyncio.shield(job)

    async def close(self) -> None:
        self._is_closed = True
        for threads in (self._readers, self._writer):
            threads.shutdown(wait=False, cancel_futures=True)
        if self._jobs:
            _, hung = await asyncio.wait(self._jobs, timeout=CLOSE_SECONDS)
            if hung:
                _log.warning("the store of KV blocks is in use, and stays open until the process ends")
                return
        self._table.close()

    @property
    def _is_resting(self) -> bool:
        return time.monotonic() < self._resting_until

    def _refusal(self, size: int) -> str:
        """Returns the reason for which records of so many bytes are dropped at once. Empty: they are not."""
        if self._is_resting:
            return "failing"
        if size > self._usable_bytes:
            return "large"
        return "busy" if self._queued_bytes + size > MAX_QUEUED_BYTES else ""

    async def _write(self, records: dict[bytes, bytes], size: int, seconds: float) -> int:
        try:
            async with self._turn:
                await self._make_room(size)
                try:
                    await self._run(self._writer, lambda: self._table.put(records.items(), seconds))
                except lmdb.MapFullError:
                    await self._free(int(self._usable_bytes * CRAMPED_SHARE))
                    await self._run(self._writer, lambda: self._table.put(records.items(), seconds))
                self._note_written(records, seconds)
        except (OSError, lmdb.Error) as error:
            self._resting_until = time.monotonic() + REST_SECONDS
            DROPPED.labels(reason="failed").inc(len(records))
            _log.warning("KV blocks were not stored", extra={"reason": str(error)})
            return 0
        finally:
            self._queued_bytes -= size
        return len(records)

    async def _make_room(self, size: int) -> None:
        lacking = self._order.used_bytes + size - self._usable_bytes
        if lacking > 0:
            await self._free(max(lacking, int(self._usable_bytes * EVICTED_SHARE)))

    async def _free(self, size: int) -> None:
        """Removes blocks of at least so many bytes. Raises OSError or lmdb.Error, and keeps them."""
        freed = self._order.take(size)
        try:
            await self._run(self._writer, lambda: self._table.remove(freed))
        except BaseException:
            self._order.restore(freed.items())
            raise
        EVICTED.inc(len(freed))
        self._show()

    def _note_written(self, records: dict[bytes, bytes], seconds: float) -> None:
        for key, record in reversed(records.items()):
            self._order.add(key, self._table.room_of(len(record)), seconds)
        STORED.inc(len(records))
        self._show()

    async def _run(self, threads: ThreadPoolExecutor, function: Callable[[], T]) -> T:
        """Runs a function in a thread. It ends there even if its caller has given up, and `close` waits for it. Raises
        OSError after `close`."""
        if self._is_closed:
            raise OSError("the store is closed")
        job = asyncio.get_running_loop().run_in_executor(threads, function)
        self._jobs.add(job)
        job.add_done_callback(self._jobs.discard)
        return await asyncio.shield(job)

    def _show(self) -> None:
        SHARED_BLOCKS.set(len(self._order))
        SHARED_BYTES.set(self._order.used_bytes)
