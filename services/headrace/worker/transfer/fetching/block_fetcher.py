"""Fetches KV blocks of prompts before their requests begin."""

import asyncio
import logging
from collections.abc import Callable, Sequence

from headrace.domain.deadline import Deadline
from headrace.engine.kv.block_exchange import BlockExchange
from headrace.errors import HeadraceError
from headrace.rpc.channel import OpenChannel
from headrace.worker.stepping.engine_thread import EngineThread
from headrace.worker.transfer.fetching.block_search import BlockSearch
from headrace.worker.transfer.fetching.block_source import BlockSource
from headrace.worker.transfer.fetching.fetched_tokens import FetchedTokens
from headrace.worker.transfer.fetching.kept_source import KeptSource
from headrace.worker.transfer.fetching.peer_source import PeerSource
from headrace.worker.transfer.fetching.pool_source import PoolSource
from headrace.worker.transfer.fetching.prefill_source import PrefillSource
from headrace.worker.transfer.fetching.store_source import StoreSource
from headrace.worker.transfer.fetching.transfer_rate import TransferRate
from headrace.worker.transfer.prefill_order import PrefillOrder
from headrace.worker.transfer.transfer_metrics import RECOMPUTED_BLOCKS

DEADLINE_SHARE = 0.3
"""Share of the time that a request has left which its transfer may take."""
MAX_SECONDS = 20.0
"""Longest time, in seconds, that a transfer may take: shorter than gateways wait for progress."""

Begin = Callable[[FetchedTokens], None]
"""Lets a request begin, and takes what was fetched for it."""

_log = logging.getLogger(__name__)


class BlockFetcher:
    """Asks sources for the blocks of a prompt, one source after the other, and then lets its request begin. Whatever
    fails, it begins, and computes what was not found. Runs on the event loop."""

    def __init__(
        self,
        thread: EngineThread,
        exchange: BlockExchange,
        block_size: int,
        open_channel: OpenChannel,
        kept: KeptSource | None = None,
        store: StoreSource | None = None,
    ) -> None:
        """`kept`: blocks on a disk, if some are kept. `store`: the one that workers share, if there is one."""
        self.rate = TransferRate()
        self._kept = kept
        self._store = store
        self._thread = thread
        self._exchange = exchange
        self._block_size = block_size
        self._open_channel = open_channel
        self._tasks: dict[str, asyncio.Task[None]] = {}

    def start(
        self, key: str, peer: PrefillSource | None, order: PrefillOrder, begin: Begin, doubtful: bytes | None = None
    ) -> None:
        """Fetches what it can and calls `begin`, unless `key` is cancelled before. `peer`: the worker that has blocks,
        if one does. `order.remaining_seconds` is the time that the request has left. `doubtful`: the first block that
        is missing, where nothing but the store may have it. If that lacks it, the request does not wait for the
        engine's thread."""
        sources: list[BlockSource] = [PoolSource()]
        sources += [] if self._kept is None else [self._kept]
        sources += [] if peer is None else [PeerSource(peer, self._open_channel, self.rate)]
        sources += [] if self._store is None else [self._store]
        task = asyncio.create_task(self._fetch_and_begin(sources, order, begin, doubtful), name=f"fetch-{key}")
        self._tasks[key] = task
        task.add_done_callback(lambda done: self._tasks.get(key) is done and self._tasks.pop(key))

    def cancel(self, key: str) -> None:
        """Ends a transfer whose request is over. An unknown one is ignored."""
        if (task := self._tasks.pop(key, None)) is not None:
            task.cancel()

    def stop(self) -> None:
        """Ends all transfers."""
        for key in list(self._tasks):
            self.cancel(key)

    async def _fetch_and_begin(
        self, sources: Sequence[BlockSource], order: PrefillOrder, begin: Begin, doubtful: bytes | None
    ) -> None:
        if doubtful is not None and not await self._is_stored(doubtful):
            begin(FetchedTokens())
            return
        deadline = Deadline.after(min(MAX_SECONDS, DEADLINE_SHARE * order.remaining_seconds))
        search = BlockSearch(order, self._block_size, self._thread, self._exchange, deadline)
        fetched = FetchedTokens()
        try:
            for source in sources:
                if not search.is_over:
                    known = search.found_count
                    await _ask(source, search)
                    fetched.add(source.tier, (search.found_count - known) * self._block_size)
            if any(isinstance(source, PeerSource) for source in sources):
                RECOMPUTED_BLOCKS.inc(len(search.missing))
            begin(fetched)
        finally:
            # If the request began, the engine has it by then, because it obeys in order.
            search.end()

    async def _is_stored(self, name: bytes) -> bool:
        """Whether the store has a block, as far as it answers."""
        if self._store is None:
            return False
        try:
            return await self._store.knows(name)
        except Exception as error:  # noqa: BLE001 - whatever it was, the request begins without them
            _note_failure(self._store, error)
            return False


async def _ask(source: BlockSource, search: BlockSearch) -> None:
    """Lets a source add what it has. Its failure is logged, and leaves the rest to the next one."""
    try:
        await source.find(search)
    except TimeoutError:
        _log.info("KV blocks did not come in time", extra={"source": source.name})
    except Exception as error:  # noqa: BLE001 - whatever it was, the request begins without them
        _note_failure(source, error)


def _note_failure(source: BlockSource, error: Exception) -> None:
    known = isinstance(error, HeadraceError)
    facts = {"source": source.name, "reason": str(error)}
    _log.warning("KV blocks could not be fetched", extra=facts, exc_info=None if known else error)
