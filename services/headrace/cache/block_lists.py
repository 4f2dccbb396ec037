"""Asks workers for the list of their blocks where changes were missed."""

import asyncio
import logging
import random

from prometheus_client import Counter

from headrace.cache.block_feed import BlockFeed
from headrace.domain.deadline import Deadline
from headrace.errors import HeadraceError, Unavailable
from headrace.lifecycle import Background
from headrace.rpc.channel import OpenChannel
from headrace.service_clients.worker import GrpcWorkerClient

MAX_CALLS = 8
"""Maximum number of lists requested at once: after a restart every worker is asked."""
CALL_SECONDS = 5.0
GRACE_SECONDS = 0.02
"""Seconds within which a change arrives that was merely overtaken."""
RETRY_SECONDS = (0.1, 0.2, 0.5, 1.0, 2.0, 5.0)
GIVE_UP_SECONDS = 60.0
"""Seconds after which a worker that gave no list is left alone until its next message."""

LISTS = Counter("headrace_cache_block_lists", "Lists of blocks asked of workers, by outcome", ["outcome"])

_log = logging.getLogger(__name__)


class BlockLists:
    """Restores the feed: one call at a time per worker, few at once, with growing pauses after failures."""

    def __init__(self, feed: BlockFeed, open_channel: OpenChannel, background: Background) -> None:
        self._feed = feed
        self._open_channel = open_channel
        self._background = background
        self._room = asyncio.Semaphore(MAX_CALLS)
        self._tasks: dict[str, asyncio.Task[None]] = {}

    def want(self, worker_id: str) -> None:
        """Starts asking for a worker's list, unless that is under way."""
        if worker_id not in self._tasks:
            task = self._background.start(self._heal(worker_id), f"blocks-{worker_id}")
            self._tasks[worker_id] = task
            task.add_done_callback(lambda _: self._tasks.pop(worker_id, None))

    async def _heal(self, worker_id: str) -> None:
        given_up, attempts = Deadline.after(GIVE_UP_SECONDS), 0
        await asyncio.sleep(_spread(GRACE_SECONDS))
        while self._feed.misses(worker_id) and not given_up.expired:
            async with self._room:
                await self._ask(worker_id)
            if self._feed.misses(worker_id):
                await asyncio.sleep(_spread(RETRY_SECONDS[min(attempts, len(RETRY_SECONDS) - 1)]))
                attempts += 1
        if self._feed.misses(worker_id):
            _log.warning("a worker does not list its blocks: given up for now", extra={"worker": worker_id})
            self._feed.give_up(worker_id)

    async def _ask(self, worker_id: str) -> None:
        address = self._feed.address(worker_id)
        try:
            if not address:
                raise Unavailable("the worker did not say where it can be reached")
            async with self._open_channel(address) as channel:
                blocks = await GrpcWorkerClient(channel).list_blocks(CALL_SECONDS)
        except HeadraceError as error:
            LISTS.labels(outcome="failed").inc()
            _log.info("no list of blocks", extra={"worker": worker_id, "address": address, "error": error.message})
            return
        restored = self._feed.restore(worker_id, blocks)
        LISTS.labels(outcome="restored" if restored else "ignored").inc()


def _spread(seconds: float) -> float:
    return seconds * random.uniform(0.5, 1.0)  # noqa: S311 - spreads the load, guards nothing
