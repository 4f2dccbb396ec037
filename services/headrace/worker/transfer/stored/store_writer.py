"""KV blocks are put into the store that workers share."""

import asyncio
from collections.abc import Callable, Sequence

from headrace.worker.transfer.stored.shared_store import SharedStore
from headrace.worker.transfer.stored.store_metrics import STORE_LOST_BLOCKS, STORE_WRITTEN_BLOCKS, STORE_WRITTEN_BYTES


class StoreWriter:
    """Implements `BlockSink` over the store. Blocks are lost while no cache answers."""

    name = "store"

    def __init__(self, store: SharedStore, block_seconds: Callable[[], float]) -> None:
        """`block_seconds` returns the time in which a block is computed, 0 while it is not known."""
        self._store = store
        self._block_seconds = block_seconds

    async def wanted(self, names: Sequence[bytes]) -> list[bytes]:
        link = self._store.link()
        if link is None:
            self.note_lost(len(names))
            return []
        damaged = self._store.damaged
        wanted = set(await link.wanted(names))
        return [name for name in names if name in wanted or name in damaged]

    async def write(self, blocks: Sequence[tuple[bytes, bytes]]) -> None:
        link = self._store.link()
        if link is None:
            self.note_lost(len(blocks))
            return
        loop = asyncio.get_running_loop()
        records = await loop.run_in_executor(self._store.threads, self._store.records, blocks)
        count = await link.store(records, self._block_seconds())
        if count == len(blocks):
            self._store.note_written(name for name, _ in blocks)
            STORE_WRITTEN_BYTES.inc(sum(len(content) for _, content in blocks))
        STORE_WRITTEN_BLOCKS.inc(count)
        self.note_lost(len(blocks) - count)

    def note_lost(self, count: int) -> None:
        STORE_LOST_BLOCKS.inc(count)
