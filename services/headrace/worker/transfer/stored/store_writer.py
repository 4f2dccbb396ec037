"""KV blocks are put into the store that workers share."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from headrace.errors import HeadraceError
from headrace.worker.transfer.stored.shared_store import SharedStore
from headrace.worker.transfer.stored.store_link import StoreLink
from headrace.worker.transfer.stored.store_metrics import STORE_LOST_BLOCKS, STORE_WRITTEN_BLOCKS, STORE_WRITTEN_BYTES

_Answer = TypeVar("_Answer")
_log = logging.getLogger(__name__)


class StoreWriter:
    """Implements `BlockSink` over the store. Blocks are lost while no cache answers."""

    name = "store"

    def __init__(self, store: SharedStore, block_seconds: Callable[[], float]) -> None:
        """`block_seconds` returns the time in which a block is computed, 0 while it is not known."""
        self._store = store
        self._block_seconds = block_seconds

    async def wanted(self, names: Sequence[bytes]) -> list[bytes]:
        answer = await self._ask(lambda link: link.wanted(names))
        if answer is None:
            self.note_lost(len(names))
            return []
        wanted = self._store.damaged.union(answer)
        return [name for name in names if name in wanted]

    async def write(self, blocks: Sequence[tuple[bytes, bytes]]) -> None:
        loop = asyncio.get_running_loop()
        records = await loop.run_in_executor(self._store.threads, self._store.records, blocks)
        count = await self._ask(lambda link: link.store(records, self._block_seconds())) or 0
        if count == len(blocks):
            self._store.note_written(name for name, _ in blocks)
            STORE_WRITTEN_BYTES.inc(sum(len(content) for _, content in blocks))
        STORE_WRITTEN_BLOCKS.inc(count)
        self.note_lost(len(blocks) - count)

    async def _ask(self, call: Callable[[StoreLink], Awaitable[_Answer]]) -> _Answer | None:
        """Calls the best cache, and the next one if it fails. None: no cache answers."""
        for link in self._store.links():
            try:
                return await call(link)
            except HeadraceError as error:
                _log.warning("A cache did not answer a worker's KV blocks", extra={"reason": str(error)})
        return None

    def note_lost(self, count: int) -> None:
        STORE_LOST_BLOCKS.inc(count)
