"""Workers that the gateway knows, from the bus, the registry and its previous run."""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterable
from pathlib import Path
from typing import Any

from headrace.errors import HeadraceError
from headrace.gateway.fleet.fleet import Fleet
from headrace.gateway.fleet.translation import to_worker_facts
from headrace.gateway.fleet.worker_facts import WorkerFacts
from headrace.lifecycle import AddressBook, Background
from headrace.service_clients.worker import WorkerClient

TIMEOUT = 1.0
"""Seconds that a worker has to answer."""
AT_ONCE = 64

_log = logging.getLogger(__name__)


class KnownWorkers:
    """Tells the fleet about workers, and stores their addresses so that a gateway that starts finds them without
    NATS."""

    def __init__(self, fleet: Fleet, open_worker: Callable[[str], WorkerClient], path: Path | None) -> None:
        """`open_worker`: makes the client of the worker at an address, `host:port`."""
        self._fleet = fleet
        self._open_worker = open_worker
        self._book = AddressBook(path)

    def start(self, background: Background, following: Coroutine[Any, Any, None]) -> None:
        """Starts contacting the workers of the previous run, storing addresses, and `following` the registry."""
        background.start(self.meet(self._book.read()), "known-workers")
        background.start(self._book.keep(), "address-book")
        background.start(following, "registry")

    async def meet(self, addresses: Iterable[str]) -> None:
        """Tells the fleet about every worker at these addresses that answers."""
        room = asyncio.Semaphore(AT_ONCE)

        async def ask(address: str) -> None:
            async with room:
                await self._ask(address)

        await asyncio.gather(*map(ask, addresses))

    def observe(self, worker: WorkerFacts) -> None:
        """Takes in a worker's report about itself."""
        self._fleet.observe(worker)
        self._book.note(worker.worker_id, worker.address)

    def depart(self, service_id: str, epoch: int) -> None:
        """Notes the goodbye of a service, which may have been a worker."""
        self._fleet.depart(service_id, epoch)
        self._book.forget(service_id)

    async def _ask(self, address: str) -> None:
        client = self._open_worker(address)
        try:
            self._fleet.observe(to_worker_facts(await client.get_status(TIMEOUT)))
        except HeadraceError as error:
            _log.info("a worker that was known does not answer", extra={"address": address, "error": error.message})
        finally:
            await client.close()
