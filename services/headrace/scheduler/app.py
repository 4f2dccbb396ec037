"""Wiring of the scheduler."""

import contextlib
import time
from collections.abc import AsyncIterator

from headrace.bus.nats_bus import NatsBus
from headrace.clients.cache import GrpcCacheClient
from headrace.rpc.channel import open_channel
from headrace.scheduler.config import SchedulerSettings
from headrace.scheduler.dispatcher import Dispatcher, WorkerChannels
from headrace.scheduler.facts import Facts
from headrace.scheduler.servicer import SchedulerServicer
from headrace.scheduler.worker_table import WorkerTable
from headrace.service import Background, Service
from headrace.v1 import scheduler_pb2_grpc


@contextlib.asynccontextmanager
async def open_app(settings: SchedulerSettings) -> AsyncIterator[Service]:
    """Connects to cache and bus and yields the service."""
    bus = NatsBus(settings.nats_url, settings.service_id)
    table = WorkerTable(settings.silence_seconds)
    channels = WorkerChannels()
    cache_channel = open_channel(settings.cache_address)
    cache = GrpcCacheClient(cache_channel)

    def make_dispatcher(model: str) -> Dispatcher:
        return Dispatcher(model, settings, table, channels.client, cache)

    background = Background()
    servicer = SchedulerServicer(table, make_dispatcher, settings.max_waiting_count, background)
    facts = Facts(bus, table, channels, settings.service_id)
    await facts.listen()
    background.watch(bus.start())
    background.start(facts.tell(servicer), "facts")
    try:
        yield Service(
            kind="scheduler",
            bus=bus,
            bind=lambda server: scheduler_pb2_grpc.add_SchedulerServiceServicer_to_server(servicer, server),
            service_names=["headrace.v1.SchedulerService"],
            epoch=time.time_ns(),
            background=background,
        )
    finally:
        await background.close()
        await channels.close()
        await cache_channel.close()
        await bus.close()
