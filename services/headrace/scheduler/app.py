"""Wiring of the scheduler."""

import contextlib
import time
from collections.abc import AsyncIterator

from headrace.lifecycle import AddressBook, Background, OpenBus, Service, channels_to, open_nats
from headrace.scheduler.config import SchedulerSettings
from headrace.scheduler.core.core import SchedulingCore
from headrace.scheduler.core.journal import Journal
from headrace.scheduler.leases import Leases
from headrace.scheduler.prefixes import Prefixes
from headrace.scheduler.publisher import SchedulerPublisher
from headrace.scheduler.scaling.servicer import KedaScaler
from headrace.scheduler.scheduler import Scheduler
from headrace.scheduler.servicer import SchedulerServicer, bind
from headrace.scheduler.subscriber import SchedulerSubscriber
from headrace.scheduler.worker_watches import WorkerWatches
from headrace.service_clients.cache import GrpcCacheClient
from headrace.service_clients.several_caches import SeveralCaches


@contextlib.asynccontextmanager
async def open_app(settings: SchedulerSettings, open_bus: OpenBus = open_nats) -> AsyncIterator[Service]:
    """Connects to cache and bus and yields the service."""
    bus = open_bus(settings)
    background = Background()
    watches = WorkerWatches(channels_to("worker", settings), background)
    scheduler = Scheduler(SchedulingCore(settings.policy()), Journal(), watches.client, settings.dispatch_seconds)
    watches.start(scheduler.feed)
    scheduler.on_doubt = watches.doubt
    open_cache = channels_to("cache", settings)
    caches = {one: open_cache(one) for one in settings.cache_addresses}
    leases = Leases(bus, scheduler, settings.service_id)
    scheduler.fence_of = leases.fence
    prefixes = Prefixes(SeveralCaches({one: GrpcCacheClient(channel) for one, channel in caches.items()}))
    servicer = SchedulerServicer(scheduler, leases, prefixes, settings.service_id)
    scaler = KedaScaler(scheduler)
    book = AddressBook(settings.workers_file)
    subscriber = SchedulerSubscriber(bus, scheduler, watches, book, settings.service_id)
    publisher = SchedulerPublisher(bus, scheduler, settings.service_id)
    await subscriber.listen()
    background.watch(bus.start())
    background.start(scheduler.keep_ticking(), "ticks")
    background.start(leases.keep_renewing(), "leases")
    background.start(book.keep(), "address-book")
    background.start(subscriber.follow_registry(), "registry")
    background.start(publisher.beat(), "heartbeat")
    try:
        yield Service(
            kind="scheduler",
            bus=bus,
            bind=lambda server: bind(server, servicer, scaler),
            service_names=["headrace.v1.SchedulerService", "externalscaler.ExternalScaler"],
            epoch=time.time_ns(),
            background=background,
        )
    finally:
        await background.close()
        await scheduler.close()
        await watches.close()
        for channel in caches.values():
            await channel.close()
        await bus.close()
