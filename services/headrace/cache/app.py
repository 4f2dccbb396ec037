"""Wiring of the cache."""

import contextlib
import time
from collections.abc import AsyncIterator

from headrace.cache.block_feed import BlockFeed
from headrace.cache.block_lists import BlockLists
from headrace.cache.config import CacheSettings
from headrace.cache.prefix_index import PrefixIndex
from headrace.cache.response_store import ResponseStore
from headrace.cache.servicer import CacheServicer
from headrace.cache.shared_kv.opened_blocks import opened_blocks
from headrace.cache.stream_journals import StreamJournals
from headrace.cache.subscriber import CacheSubscriber
from headrace.lifecycle import Background, OpenBus, Service, channels_to, open_nats
from headrace.v1 import cache_pb2_grpc


@contextlib.asynccontextmanager
async def open_app(settings: CacheSettings, open_bus: OpenBus = open_nats) -> AsyncIterator[Service]:
    """Opens the stores and yields the service."""
    store = ResponseStore(settings.folder, settings.max_bytes)
    background = Background()
    index = PrefixIndex(settings.max_prefix_blocks)
    feed = BlockFeed(index)
    lists = BlockLists(feed, channels_to("worker", settings), background)
    journals = StreamJournals(settings.stream_bytes)
    async with opened_blocks(settings.folder, settings.kv_store_bytes, settings.kv_store_url) as blocks:
        servicer = CacheServicer(store, index, journals, settings.lifetime_seconds, blocks)
        bus = open_bus(settings)
        await CacheSubscriber(bus, feed, lists).listen()
        background.watch(bus.start())
        background.start(journals.watch(), "journals")
        try:
            yield Service(
                kind="cache",
                bus=bus,
                bind=lambda server: cache_pb2_grpc.add_CacheServiceServicer_to_server(servicer, server),
                service_names=["headrace.v1.CacheService"],
                epoch=time.time_ns(),
                background=background,
            )
        finally:
            await background.close()
            await bus.close()
            store.close()
