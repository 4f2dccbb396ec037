"""Writes KV blocks to a disk between steps, and knows which prompts begin with one that only the disk has."""

import asyncio
import logging
import time
from collections import OrderedDict
from collections.abc import Sequence

from headrace.engine.contract.request import BlockEvents
from headrace.engine.kv.block_exchange import BlockExchange
from headrace.errors import HeadraceError
from headrace.kv.block_hash import extend_hashes, root_hash
from headrace.worker.stepping.engine_thread import EngineThread
from headrace.worker.transfer.kept.kept_blocks import KeptBlocks
from headrace.worker.transfer.kept.kept_metrics import LOST_BLOCKS, WRITTEN_BLOCKS
from headrace.worker.transfer.prefill_order import PrefillOrder

BATCH_BLOCKS = 8
"""Blocks that are copied out of the engine's memory between two steps."""
REST = 20.0
"""Time between two such copies, as a multiple of the processor time of one: the engine gives up a twentieth at most."""
MAX_PENDING = 8192
"""Maximum number of blocks that wait to be written. Beyond it the oldest are not."""
COPY_SECONDS = 30.0

_log = logging.getLogger(__name__)


class BlockKeeper:
    """Follows the prefix cache of an engine. Runs on the event loop."""

    def __init__(self, thread: EngineThread, exchange: BlockExchange, block_size: int, kept: KeptBlocks) -> None:
        self.kept = kept
        self._thread = thread
        self._exchange = exchange
        self._block_size = block_size
        self._cached: set[bytes] = set()
        """Names of the blocks in the prefix cache."""
        self._pending: OrderedDict[bytes, None] = OrderedDict()
        self._has_work = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begins to write."""
        self._task = asyncio.create_task(self._run(), name="keep-blocks")

    def stop(self) -> None:
        """Ends writing, and closes the file."""
        if self._task is not None:
            self._task.cancel()
        self.kept.close()

    def follow(self, events: BlockEvents) -> None:
        """Takes in what changed in the prefix cache."""
        self._cached.difference_update(events.removed)
        self._cached.update(events.stored)
        for name in events.stored:
            if name not in self.kept:
                self._pending[name] = None
        while len(self._pending) > MAX_PENDING:
            self._pending.popitem(last=False)
            LOST_BLOCKS.inc()
        if self._pending:
            self._has_work.set()

    def knows_more(self, order: PrefillOrder) -> bool:
        """Whether the disk has the first block of a prompt that the prefix cache lacks. The last token is in none."""
        hashes: list[bytes] = []
        root, size = root_hash(order.cache_salt, order.adapter), self._block_size
        for start in range(0, len(order.token_ids) - size, size):
            extend_hashes(hashes, root, [order.token_ids[start : start + size]])
            if hashes[-1] not in self._cached:
                return hashes[-1] in self.kept
        return False

    async def _run(self) -> None:
        while True:
            await self._has_work.wait()
            took = 0.0
            try:
                took = await self._write_some()
            except (HeadraceError, TimeoutError, OSError) as error:
                _log.warning("KV blocks were not kept", extra={"reason": str(error)})
                took = 1.0 / REST
            await asyncio.sleep(REST * took)

    async def _write_some(self) -> float:
        """Writes some blocks. Returns the processor time, in seconds, that the engine's thread gave."""
        names = [self._pending.popitem(last=False)[0] for _ in range(min(BATCH_BLOCKS, len(self._pending)))]
        if not self._pending:
            self._has_work.clear()
        contents, took = await self._thread.call(lambda: self._copy(names), COPY_SECONDS)
        await asyncio.get_running_loop().run_in_executor(self.kept.threads, self._write, contents)
        WRITTEN_BLOCKS.inc(len(contents))
        return took

    def _copy(self, names: Sequence[bytes]) -> tuple[list[tuple[bytes, bytes]], float]:
        """Copies those of the blocks that are still there. For the engine's thread."""
        started, found = time.thread_time(), []
        for name in names:
            lease = self._exchange.lease([name])
            if len(lease):
                found.append((name, self._exchange.export(lease, 0, 1)[0]))
            self._exchange.release(lease)
        return found, time.thread_time() - started

    def _write(self, contents: Sequence[tuple[bytes, bytes]]) -> None:
        for name, content in contents:
            self.kept.put(name, content)
