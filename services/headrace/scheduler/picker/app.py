"""Wiring of the endpoint picker."""

import asyncio
import contextlib
import logging
import signal
from collections.abc import AsyncIterator

import httpx2

from headrace.errors import TaskDied, Unavailable
from headrace.lifecycle import Background
from headrace.lifecycle.metrics_port import shown_metrics
from headrace.rpc.server import Server, ServerSecurity
from headrace.scheduler.picker.choosing.endpoint_picker import EndpointPicker
from headrace.scheduler.picker.config import PickerSettings
from headrace.scheduler.picker.endpoints.endpoint_list import EndpointList
from headrace.scheduler.picker.endpoints.scrapes import Scrapes
from headrace.scheduler.picker.requests.body_room import BodyRoom
from headrace.scheduler.picker.servicer import SERVICE_NAME, PickerServicer, bind
from headrace.security.port_tls import public_tls

MAX_METRICS_BYTES = 16 * 1024 * 1024

_log = logging.getLogger(__name__)


class MetricsReader:
    """Reads the metrics of endpoints over HTTP. Connections are kept between scrapes."""

    def __init__(self, path: str, timeout: float) -> None:
        self._path = path
        # Endpoints are reached directly, whatever proxy the environment names.
        self._client = httpx2.AsyncClient(timeout=timeout, trust_env=False, limits=httpx2.Limits(max_connections=None))

    async def read(self, address: str) -> str:
        """Returns the metrics that an endpoint shows. Raises Unavailable."""
        try:
            async with self._client.stream("GET", f"http://{address}{self._path}") as response:
                if response.status_code != httpx2.codes.OK:
                    raise Unavailable(f"{self._path} answered {response.status_code}")
                content = bytearray()
                async for piece in response.aiter_bytes():
                    content += piece
                    if len(content) > MAX_METRICS_BYTES:
                        raise Unavailable(f"{self._path} has more than {MAX_METRICS_BYTES} bytes")
                return content.decode("utf-8", "replace")
        except httpx2.HTTPError as error:
            raise Unavailable(f"{self._path} cannot be read: {error!r}") from None

    async def close(self) -> None:
        await self._client.aclose()


@contextlib.asynccontextmanager
async def served_picker(settings: PickerSettings, background: Background) -> AsyncIterator[str]:
    """Serves the picker for as long as the context is open; yields its address. Raises ConfigError and AddressInUse."""
    tls = settings.tls_files
    endpoints = EndpointList(settings.endpoints, settings.endpoints_file, settings.service)
    picker = EndpointPicker(
        settings.policy(),
        settings.limits(),
        settings.queue_seconds,
        settings.fallback_count,
        settings.max_prefix_count,
    )
    room = BodyRoom(settings.max_body_bytes, settings.max_held_body_bytes)
    servicer = PickerServicer(picker, room, settings.orders(), settings.streams())
    server = Server(
        lambda made: bind(made, servicer),
        [SERVICE_NAME],
        is_public=True,
        security=ServerSecurity(public=None if tls is None else public_tls(*tls)),
    )
    reader = MetricsReader(settings.metrics_path, settings.scrape_timeout_seconds)
    scrapes = Scrapes(picker, endpoints, reader.read, settings.scrape_timeout_seconds)
    address = await server.start(settings.listen_address)
    background.start(scrapes.keep_reading(settings.list_seconds), "endpoints")
    background.start(scrapes.keep_scraping(settings.scrape_seconds), "scrapes")
    background.start(picker.keep_ticking(), "ticks")
    background.start(_serve_once_synced(picker, server), "readiness")
    _log.info("listening", extra={"address": address})
    try:
        yield address
    finally:
        await server.set_serving(False)
        await server.stop(settings.drain_seconds)
        await background.close()
        await reader.close()


async def _serve_once_synced(picker: EndpointPicker, server: Server) -> None:
    """Turns health green once the state of all endpoints is known. Later ones are no reason to turn it red."""
    await picker.synced.wait()
    await server.set_serving(True)


async def run_picker(settings: PickerSettings) -> None:
    """Runs the picker until a signal stops it. Raises TaskDied where a part of it failed."""
    stopping = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stopping.set)
    background = Background()
    with shown_metrics(settings.metrics_port):
        async with served_picker(settings, background):
            ends = {asyncio.create_task(stopping.wait()), asyncio.create_task(background.failure())}
            done, waiting = await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
            for one in waiting:
                one.cancel()
            failure = next((found for one in done if isinstance(found := one.result(), TaskDied)), None)
    if failure is not None:
        raise failure
