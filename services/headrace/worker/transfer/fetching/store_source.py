"""KV blocks that the store has, which workers share."""

import asyncio
import time
from collections.abc import Callable, Sequence
from contextlib import aclosing

from headrace.errors import HeadraceError
from headrace.worker.transfer.block_packet import BlockPacket
from headrace.worker.transfer.fetching.block_search import BlockSearch
from headrace.worker.transfer.fetching.fetched_tokens import Tier
from headrace.worker.transfer.stored.shared_store import SharedStore
from headrace.worker.transfer.stored.store_link import PATIENCE_SECONDS, StoreLink
from headrace.worker.transfer.stored.store_metrics import (
    REFUSED_STORED,
    STORE_ASKS,
    STORE_READ_BLOCKS,
    STORE_READ_BYTES,
    STORE_SECONDS,
)

MAX_NAMES = 8192
"""Maximum number of blocks that one call names."""
WORTH_SHARE = 0.5
"""Share of the time in which missing blocks would be computed that the store may take to bring them."""
UNKNOWN_SECONDS = 5.0
"""Time that it may take while nothing is known of the engine's pace."""

Predict = Callable[[int], float | None]
"""Predicts the seconds in which so many blocks are computed. None: the pace is not known yet."""


class StoreSource:
    """Store that is asked in one call for the leading blocks of a prompt. Each is checked before it is used, and the
    first that is not the block in question, bit by bit, ends the search as one that is absent does."""

    name = "store"
    tier: Tier = "store"

    def __init__(self, store: SharedStore, min_count: int, predict: Predict) -> None:
        """`min_count`: fewest missing blocks for which the store is asked."""
        self._store = store
        self._min_count = min_count
        self._predict = predict

    async def knows(self, name: bytes) -> bool:
        """Whether the store has a block. Costs a call, and nothing of the engine. Raises HeadraceError."""
        link, started = self._store.link(), time.perf_counter()
        if link is None:
            return False
        try:
            is_known = await link.has(name)
        except HeadraceError:
            _note_ask("failed", started)
            raise
        if not is_known:
            _note_ask("miss", started)
        return is_known

    async def find(self, search: BlockSearch) -> None:
        """Receives blocks until one is missing. See `BlockSource`."""
        names = search.missing[:MAX_NAMES]
        link = self._store.link() if len(names) >= self._min_count else None
        if link is None:
            return
        known, started = search.found_count, time.perf_counter()
        try:
            await self._receive(link, names, search)
        except (HeadraceError, TimeoutError):
            _note_ask("failed", started)
            raise
        _note_ask("hit" if search.found_count > known else "miss", started)

    async def _receive(self, link: StoreLink, names: list[bytes], search: BlockSearch) -> None:
        computed = self._predict(len(names))
        seconds = UNKNOWN_SECONDS if computed is None else max(PATIENCE_SECONDS, WORTH_SHARE * computed)
        async with aclosing(link.fetch(names, search.deadline, seconds)) as packets:
            async for records in packets:
                contents = await self._contents(names, records)
                if contents:
                    packet = BlockPacket.of(search.found_count, names[: len(contents)], contents)
                    STORE_READ_BLOCKS.inc(await search.add(packet))
                    STORE_READ_BYTES.inc(packet.byte_count)
                names = names[len(contents) :]
                if len(contents) < len(records):
                    self._refuse(names)
                    return
                if search.is_over:
                    return

    async def _contents(self, names: Sequence[bytes], records: Sequence[bytes]) -> list[bytes]:
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._store.threads, self._store.contents, names, records)

    def _refuse(self, names: Sequence[bytes]) -> None:
        """Counts a record that is damaged, or one more than was asked for."""
        REFUSED_STORED.labels(reason="damaged" if names else "unasked").inc()
        if names:
            self._store.note_damaged(names[0])


def _note_ask(outcome: str, started: float) -> None:
    STORE_ASKS.labels(outcome=outcome).inc()
    STORE_SECONDS.observe(time.perf_counter() - started)
