"""Everything that the scheduler tells over NATS: how long its queues are."""

import asyncio

from headrace.bus import subjects
from headrace.bus.bus import Bus
from headrace.lifecycle import wait_at_most
from headrace.scheduler.scheduler import Scheduler
from headrace.scheduler.translation import to_queues
from headrace.v1.events_pb2 import SchedulerHeartbeatSent

INTERVAL = 0.25
"""Seconds between two heartbeats."""


class SchedulerPublisher:
    """Publishes the heartbeat of one scheduler."""

    def __init__(self, bus: Bus, scheduler: Scheduler, scheduler_id: str) -> None:
        self._bus = bus
        self._scheduler = scheduler
        self._scheduler_id = scheduler_id
        self._connected = asyncio.Event()
        bus.on_connect(self._connected.set)

    async def beat(self) -> None:
        """Publishes the queues until cancelled: every INTERVAL seconds, and at once after a connect."""
        subject = subjects.of(subjects.SCHEDULER_HEARTBEAT, self._scheduler_id)
        while True:
            self._connected.clear()
            event = SchedulerHeartbeatSent(scheduler_id=self._scheduler_id, queues=to_queues(self._scheduler.queues()))
            await self._bus.publish(subject, event)
            await wait_at_most(self._connected, INTERVAL)
