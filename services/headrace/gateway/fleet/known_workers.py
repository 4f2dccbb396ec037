"""Workers that the gateway knows, from the bus and from before its start."""

import asyncio
import logging
from collections.abc import Callable
from pathlib import Path

import grpc

from headrace.bus import subjects
from headrace.bus.bus import Bus
from headrace.clients.worker import GrpcWorkerClient
from headrace.errors import HeadraceError
from headrace.gateway.fleet.fleet import Fleet
from headrace.lifecycle import AddressBook, Background
from headrace.v1.events_pb2 import ServiceDeregistered, WorkerHeartbeatSent

TIMEOUT = 1.0
"""Seconds in which a worker of before has to answer."""
AT_ONCE = 64

_log = logging.getLogger(__name__)


class KnownWorkers:
    """Tells the fleet of workers, and keeps their addresses: a gateway that starts finds them without NATS."""

    def __init__(self, fleet: Fleet, open_channel: Callable[[str], grpc.aio.Channel], path: Path | None) -> None:
        self._fleet = fleet
        self._open_channel = open_channel
        self._book = AddressBook(path)

    async def listen(self, bus: Bus) -> None:
        """Subscribes to what workers tell of themselves."""
        await bus.subscribe(subjects.WORKER_HEARTBEAT, WorkerHeartbeatSent, self._on_heartbeat)
        await bus.subscribe(subjects.SERVICE_DEREGISTERED, ServiceDeregistered, self._on_deregistered)

    def start(self, background: Background) -> None:
        """Begins to meet the workers of before, and to keep addresses."""
        background.start(self.meet_again(), "known-workers")
        background.start(self._book.keep(), "address-book")

    async def meet_again(self) -> None:
        """Tells the fleet of every worker of before that answers."""
        room = asyncio.Semaphore(AT_ONCE)

        async def meet(address: str) -> None:
            try:
                async with room, self._open_channel(address) as channel:
                    self._fleet.observe(await GrpcWorkerClient(channel).get_status(TIMEOUT))
            except HeadraceError as error:
                _log.info("a worker of before is gone", extra={"address": address, "error": error.message})

        await asyncio.gather(*(meet(address) for address in self._book.read()))

    def _on_heartbeat(self, event: WorkerHeartbeatSent) -> None:
        self._fleet.observe(event.status)
        self._book.note(event.status.worker_id, event.status.address)

    def _on_deregistered(self, event: ServiceDeregistered) -> None:
        self._fleet.on_deregistered(event)
        self._book.forget(event.service_id)
