"""Everything that the cache receives over NATS: which blocks workers hold, and which workers left."""

from headrace.bus import subjects
from headrace.bus.bus import Bus
from headrace.cache.block_feed import BlockFeed
from headrace.cache.block_lists import BlockLists
from headrace.cache.translation import to_block_change
from headrace.v1.events_pb2 import BlocksChanged, ServiceDeregistered


class CacheSubscriber:
    """Keeps the feed up to date, and asks workers for their whole list where the feed missed a change."""

    def __init__(self, bus: Bus, feed: BlockFeed, lists: BlockLists) -> None:
        self._bus = bus
        self._feed = feed
        self._lists = lists

    async def listen(self) -> None:
        """Subscribes to both kinds of news."""
        await self._bus.subscribe(subjects.BLOCKS_CHANGED, BlocksChanged, self._on_blocks_changed)
        await self._bus.subscribe(subjects.WORKER_DEREGISTERED, ServiceDeregistered, self._on_deregistered)

    def _on_blocks_changed(self, event: BlocksChanged) -> None:
        if self._feed.hear(to_block_change(event)):
            self._lists.want(event.worker_id)

    def _on_deregistered(self, event: ServiceDeregistered) -> None:
        self._feed.depart(event.service_id, event.epoch)
