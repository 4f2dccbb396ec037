"""Keeps the list of endpoints, and scrapes each of them."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Iterable
from typing import Protocol

from headrace.errors import HeadraceError
from headrace.lifecycle import cancel_and_wait
from headrace.scheduler.picker.endpoints.endpoint_list import EndpointList
from headrace.scheduler.picker.endpoints.reported_load import ReportedLoad, parse_load

Fetch = Callable[[str], Awaitable[str]]
"""Returns the metrics that an endpoint shows. Raises a HeadraceError."""

_log = logging.getLogger(__name__)


class ScrapeReader(Protocol):
    """Reader of what is scraped."""

    @property
    def addresses(self) -> Collection[str]:
        """Endpoints to scrape."""

    def set_endpoints(self, addresses: Collection[str]) -> None:
        """Takes in which endpoints there are."""

    def take_load(self, address: str, load: ReportedLoad) -> None:
        """Takes in a scrape."""

    def fail_scrape(self, address: str) -> None:
        """Takes in that a scrape failed."""


class Scrapes:
    """Asks each endpoint by a task of its own, so that a slow one delays no other."""

    def __init__(self, reader: ScrapeReader, endpoints: EndpointList, fetch: Fetch, timeout: float) -> None:
        """`timeout`: seconds after which a scrape has failed."""
        self._reader = reader
        self._endpoints = endpoints
        self._fetch = fetch
        self._timeout = timeout
        self._running: dict[str, asyncio.Task[None]] = {}
        """The last scrape of each endpoint."""
        self._failing: set[str] = set()

    async def refresh(self) -> None:
        """Reads the list of endpoints."""
        self._reader.set_endpoints(await self._endpoints.read())

    async def scrape(self, address: str) -> None:
        """Scrapes one endpoint."""
        try:
            async with asyncio.timeout(self._timeout):
                load = parse_load(await self._fetch(address))
        except (HeadraceError, TimeoutError) as error:
            reason = error.message if isinstance(error, HeadraceError) else f"no answer in {self._timeout:g} s"
            if address not in self._failing:
                _log.warning("a scrape failed", extra={"endpoint": address, "error": reason})
            self._failing.add(address)
            self._reader.fail_scrape(address)
        else:
            self._failing.discard(address)
            self._reader.take_load(address, load)

    async def keep_reading(self, seconds: float) -> None:
        """Reads the list of endpoints every so many seconds, until cancelled."""
        while True:
            await self.refresh()
            self._begin(address for address in self._reader.addresses if address not in self._running)
            await asyncio.sleep(seconds)

    async def keep_scraping(self, seconds: float) -> None:
        """Scrapes all endpoints every so many seconds, until cancelled."""
        try:
            while True:
                self._begin(self._reader.addresses)
                await asyncio.sleep(seconds)
        finally:
            await cancel_and_wait(self._running.values())

    def _begin(self, addresses: Iterable[str]) -> None:
        """Begins to scrape the endpoints that are not being scraped."""
        for address in list(addresses):
            if (running := self._running.get(address)) is None or running.done():
                self._running[address] = asyncio.create_task(self.scrape(address), name=f"scrape-{address}")
        for address in self._running.keys() - set(self._reader.addresses):
            self._running.pop(address).cancel()
            self._failing.discard(address)
