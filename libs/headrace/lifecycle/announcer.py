"""Tells other services that this one is there: in the registry and, every second, as an event."""

import asyncio

from headrace.bus import subjects
from headrace.bus.bus import Bus
from headrace.lifecycle.background import Background
from headrace.lifecycle.cancel_and_wait import cancel_and_wait
from headrace.lifecycle.wait_at_most import wait_at_most
from headrace.v1.events_pb2 import ServiceDeregistered, ServiceRegistered

FACT_INTERVAL = 1.0
REGISTRY_EVERY = 10
"""Events between two writes to the registry, whose entries expire after 30 seconds."""


class Announcer:
    """Announces one service until withdrawn. Writes to the registry again after every reconnect."""

    def __init__(self, bus: Bus, registration: ServiceRegistered) -> None:
        self._bus = bus
        self._registration = registration
        self._due = asyncio.Event()
        self._is_withdrawn = False
        self._task: asyncio.Task[None] | None = None

    def start(self, background: Background) -> None:
        self._bus.on_connect(self._due.set)
        self._task = background.start(self._announce(), "announcer")

    async def withdraw(self) -> None:
        """Stops announcing and tells that the service stops."""
        # NATS' client may swallow a cancellation in the middle of a write to the registry.
        self._is_withdrawn = True
        self._due.set()
        if self._task is not None:
            await cancel_and_wait([self._task])
        service_id = self._registration.service_id
        await self._bus.delete(self._key)
        farewell = ServiceDeregistered(service_id=service_id, epoch=self._registration.epoch)
        await self._bus.publish(subjects.of(subjects.deregistered(self._registration.kind), service_id), farewell)

    @property
    def _key(self) -> str:
        """Key of the entry. It begins with the kind, so that NATS can keep others from writing it."""
        return f"{self._registration.kind}.{self._registration.service_id}"

    async def _announce(self) -> None:
        subject = subjects.of(subjects.registered(self._registration.kind), self._registration.service_id)
        count = 0
        while not self._is_withdrawn:
            if self._due.is_set() or count % REGISTRY_EVERY == 0:
                self._due.clear()
                await self._bus.put(self._key, self._registration)
            await self._bus.publish(subject, self._registration)
            count += 1
            await wait_at_most(self._due, FACT_INTERVAL)
