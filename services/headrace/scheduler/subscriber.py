"""Everything that the scheduler receives over NATS: where workers are, which of them left, and what other schedulers
want."""

import asyncio

from headrace.bus import subjects
from headrace.bus.bus import Bus
from headrace.lifecycle import AddressBook
from headrace.scheduler.core import events
from headrace.scheduler.scheduler import Scheduler
from headrace.scheduler.worker_watches import WorkerWatches
from headrace.v1.events_pb2 import SchedulerHeartbeatSent, ServiceDeregistered, ServiceRegistered, WorkerHeartbeatSent


class SchedulerSubscriber:
    """Finds workers for WorkerWatches, on whose streams they report their load."""

    def __init__(
        self, bus: Bus, scheduler: Scheduler, watches: WorkerWatches, book: AddressBook, scheduler_id: str
    ) -> None:
        self._bus = bus
        self._book = book
        self._scheduler = scheduler
        self._scheduler_id = scheduler_id
        self._watches = watches
        self._connected = asyncio.Event()

    async def listen(self) -> None:
        """Subscribes, and watches the workers that an earlier life of this scheduler knew."""
        for address in self._book.read():
            self._watches.meet(address)
        await self._bus.subscribe(subjects.WORKER_HEARTBEAT, WorkerHeartbeatSent, self._on_heartbeat)
        await self._bus.subscribe(subjects.WORKER_DEREGISTERED, ServiceDeregistered, self._on_deregistered)
        await self._bus.subscribe(subjects.SCHEDULER_HEARTBEAT, SchedulerHeartbeatSent, self._on_scheduler_heartbeat)
        self._bus.on_connect(self._connected.set)

    async def follow_registry(self) -> None:
        """Reads the registry after every connect until cancelled, instead of waiting for each worker's heartbeat."""
        while True:
            await self._connected.wait()
            self._connected.clear()
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

    def _on_scheduler_heartbeat(self, event: SchedulerHeartbeatSent) -> None:
        """Follows a scheduler that leads a model under a later lease than this one."""
        if event.scheduler_id == self._scheduler_id:
            return
        for queue in event.queues:
            if queue.HasField("wanted_worker_count") and queue.fence > self._scheduler.fence_of(queue.model):
                self._scheduler.feed(events.LeaderWanted(queue.model, queue.wanted_worker_count))
