"""Writes KV blocks to a place that keeps them, between steps."""

import asyncio
import logging
import time
from collections import OrderedDict
from collections.abc import Sequence

from headrace.engine.contract.request import BlockEvents
from headrace.engine.kv.block_exchange import BlockExchange
from headrace.errors import HeadraceError
from headrace.worker.stepping.engine_thread import EngineThread
from headrace.worker.transfer.keeping.block_sink import BlockSink

BATCH_BLOCKS = 8
"""Maximum number of blocks that are copied out of the engine's memory between two steps."""
BATCH_BYTES = 4 << 20
"""Maximum bytes of such a copy, unless a single block is larger."""
ASKED_BLOCKS = 64
"""Blocks about which the place is asked at a time."""
REST = 20.0
"""Time between two such copies while the engine is busy, as a multiple of the processor time of one: it gives up a
twentieth at most."""
FAILURE_SECONDS = 1.0
"""Time after a failure in which nothing is written."""
MAX_PENDING = 8192
"""Maximum number of blocks that wait to be written. Beyond it the oldest are not."""
COPY_SECONDS = 30.0

_log = logging.getLogger(__name__)


class BlockKeeper:
    """Follows the prefix cache of an engine. Runs on the event loop."""

    def __init__(self, thread: EngineThread, exchange: BlockExchange, sink: BlockSink) -> None:
        self.sink = sink
        self._thread = thread
        self._exchange = exchange
        self._batch_count = max(1, min(BATCH_BLOCKS, BATCH_BYTES // exchange.block_bytes))
        self._pending: OrderedDict[bytes, None] = OrderedDict()
        self._has_work = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begins to write."""
        self._task = asyncio.create_task(self._run(), name=f"keep-blocks-{self.sink.name}")

    def stop(self) -> None:
        """Ends writing."""
        if self._task is not None:
            self._task.cancel()

    def follow(self, events: BlockEvents) -> None:
        """Takes in what entered the prefix cache."""
        self._pending.update(dict.fromkeys(events.stored))
        lost = max(0, len(self._pending) - MAX_PENDING)
        for _ in range(lost):
            self._pending.popitem(last=False)
        if lost:
            self.sink.note_lost(lost)
        if self._pending:
            self._has_work.set()

    async def _run(self) -> None:
        while True:
            await self._has_work.wait()
            names = [self._pending.popitem(last=False)[0] for _ in range(min(ASKED_BLOCKS, len(self._pending)))]
            if not self._pending:
                self._has_work.clear()
            try:
                names = await self.sink.wanted(names)
                while names:
                    took = await self._write(names[: self._batch_count])
                    names = names[self._batch_count :]
                    await asyncio.sleep(REST * took if self._thread.busy is not None else 0.0)
            except (HeadraceError, TimeoutError, OSError) as error:
                facts = {"place": self.sink.name, "reason": str(error)}
                _log.warning("KV blocks were not kept", extra=facts)
                self.sink.note_lost(len(names))
                await asyncio.sleep(FAILURE_SECONDS)

    async def _write(self, names: Sequence[bytes]) -> float:
        """Writes some blocks. Returns the processor time, in seconds, that the engine's thread gave."""
        blocks, took = await self._thread.call(lambda: self._copy(names), COPY_SECONDS)
        if blocks:
            await self.sink.write(blocks)
        return took

    def _copy(self, names: Sequence[bytes]) -> tuple[list[tuple[bytes, bytes]], float]:
        """Copies the blocks that are still there. For the engine's thread."""
        started, found = time.thread_time(), []
        for name in names:
            lease = self._exchange.lease([name])
            if len(lease):
                found.append((name, self._exchange.export(lease, 0, 1)[0]))
            self._exchange.release(lease)
        return found, time.thread_time() - started
