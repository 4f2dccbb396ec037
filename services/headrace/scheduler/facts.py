"""Learns from the bus where workers are, and reports the queues there."""

import asyncio
import contextlib
from collections.abc import Callable

from headrace.bus import subjects
from headrace.bus.bus import Bus
from headrace.lifecycle import AddressBook
from headrace.scheduler.core import events
from headrace.scheduler.scheduler import Scheduler
from headrace.scheduler.worker_watches import WorkerWatches
from headrace.v1.events_pb2 import (
    SchedulerHeartbeatSent,
    ServiceDeregistered,
    ServiceRegistered,
    WorkerHeartbeatSent,
)
from headrace.v1.scheduler_pb2 import SchedulerSign

INTERVAL = 0.25


class Facts:
    """Learns from the bus which workers there are. How they are, they say themselves: see WorkerWatches."""

    def __init__(
        self, bus: Bus, scheduler: Scheduler, watches: WorkerWatches, book: AddressBook, scheduler_id: str
    ) -> None:
        self._bus = bus
        self._book = book
        self._scheduler = scheduler
        self._watches = watches
        self._scheduler_id = scheduler_id
        self._resync_due = asyncio.Event()

    async def listen(self) -> None:
        """Subscribes, and meets the workers that there were before this scheduler started."""
        for address in self._book.read():
            self._watches.meet(address)
        await self._bus.subscribe(subjects.WORKER_HEARTBEAT, WorkerHeartbeatSent, self._on_heartbeat)
        await self._bus.subscribe(subjects.SERVICE_DEREGISTERED, ServiceDeregistered, self._on_deregistered)
        self._bus.on_connect(self._resync_due.set)

    async def tell(self, sign: Callable[[], SchedulerSign]) -> None:
        """Publishes the queues until cancelled, and reads the registry after every connect."""
        subject = subjects.of(subjects.SCHEDULER_HEARTBEAT, self._scheduler_id)
        while True:
            if self._resync_due.is_set():
                self._resync_due.clear()
                await self._resync()
            event = SchedulerHeartbeatSent(scheduler_id=self._scheduler_id, queues=sign().queues)
            await self._bus.publish(subject, event)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._resync_due.wait(), INTERVAL)

    async def _resync(self) -> None:
        """Meets every registered worker, instead of waiting for its next heartbeat."""
        for entry in await self._bus.entries(ServiceRegistered):
            if entry.kind == "worker":
                self._watches.meet(entry.address)

    def _on_heartbeat(self, event: WorkerHeartbeatSent) -> None:
        self._watches.meet(event.status.address)
        self._book.note(event.status.worker_id, event.status.address)

    def _on_deregistered(self, event: ServiceDeregistered) -> None:
        self._book.forget(event.service_id)
        for model, desk in self._scheduler.core.desks.items():
            if event.service_id in desk.fleet.workers:
                self._scheduler.feed(events.WorkerLeft(model, event.service_id, event.epoch))
