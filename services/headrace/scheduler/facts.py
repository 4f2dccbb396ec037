"""What the scheduler hears about workers, and tells about its queues."""

import asyncio
import contextlib
import logging

from headrace.bus import subjects
from headrace.bus.bus import Bus
from headrace.errors import HeadraceError
from headrace.scheduler.dispatcher import WorkerChannels
from headrace.scheduler.servicer import SchedulerServicer
from headrace.scheduler.worker_table import WorkerTable
from headrace.v1.events_pb2 import (
    SchedulerHeartbeatSent,
    ServiceDeregistered,
    ServiceRegistered,
    WorkerHeartbeatSent,
)

INTERVAL = 0.25
STATUS_TIMEOUT = 1.0

_log = logging.getLogger(__name__)


class Facts:
    """Feeds the worker table from the bus, and from the workers themselves after every connect."""

    def __init__(self, bus: Bus, table: WorkerTable, channels: WorkerChannels, scheduler_id: str) -> None:
        self._bus = bus
        self._table = table
        self._channels = channels
        self._scheduler_id = scheduler_id
        self._resync_due = asyncio.Event()

    async def listen(self) -> None:
        """Subscribes."""
        await self._bus.subscribe(
            subjects.WORKER_HEARTBEAT, WorkerHeartbeatSent, lambda event: self._table.observe(event.status)
        )
        await self._bus.subscribe(
            subjects.SERVICE_DEREGISTERED,
            ServiceDeregistered,
            lambda event: self._table.remove(event.service_id, event.epoch),
        )
        self._bus.on_connect(self._resync_due.set)

    async def tell(self, servicer: SchedulerServicer) -> None:
        """Publishes the queues until cancelled, and keeps the table honest about the bus."""
        subject = subjects.of(subjects.SCHEDULER_HEARTBEAT, self._scheduler_id)
        while True:
            self._table.note_bus(self._bus.connected)
            if self._resync_due.is_set():
                self._resync_due.clear()
                await self._resync()
            event = SchedulerHeartbeatSent(scheduler_id=self._scheduler_id, queues=servicer.queues())
            await self._bus.publish(subject, event)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._resync_due.wait(), INTERVAL)

    async def _resync(self) -> None:
        """Asks every registered worker how it is, instead of waiting for its next heartbeat."""
        entries = await self._bus.entries(ServiceRegistered)
        workers = [entry for entry in entries if entry.kind == "worker"]
        await asyncio.gather(*(self._ask(entry.address) for entry in workers))
        await self._channels.trim()

    async def _ask(self, address: str) -> None:
        try:
            self._table.observe(await self._channels.client(address).get_status(STATUS_TIMEOUT))
        except HeadraceError as error:
            _log.info("a registered worker does not answer", extra={"address": address, "error": error.message})
