"""A whole platform in one process: the five services as they are, over real gRPC and HTTP on free ports of loopback.

Not here are NATS, and the processes in which a tokenizer works on long texts. So a breakpoint anywhere stops
everything, and a test takes a fraction of a second.
"""

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import httpx2
from prometheus_client import REGISTRY, CollectorRegistry
from tests.harness.connection import Link
from tests.harness.free_ports import free_ports
from tests.harness.tcp_proxy import TcpProxy
from tests.integration.in_process_bus import InProcessBus
from tests.integration.in_process_texts import InProcessTexts

from headrace.bus.memory_bus import MemoryBus
from headrace.cache.app import open_app as open_cache
from headrace.cache.config import CacheSettings
from headrace.gateway.app import open_app as open_gateway
from headrace.gateway.config import GatewaySettings
from headrace.lifecycle import Service, ServiceSettings
from headrace.lifecycle.run import serving
from headrace.rpc.channel import open_channel
from headrace.scheduler.app import open_app as open_scheduler
from headrace.scheduler.config import SchedulerSettings
from headrace.service_clients.worker import GrpcWorkerClient
from headrace.tokenizer.app import open_app as open_tokenizer
from headrace.tokenizer.config import TokenizerSettings
from headrace.v1.worker_pb2 import WorkerStatus
from headrace.worker.app import open_app as open_worker
from headrace.worker.config import WorkerSettings

START_SECONDS = 30.0
STOP_SECONDS = 0.2
"""Seconds that running work is given to end: whoever leaves a test early is not waited for."""
ANSWER_SECONDS = 2.0


C = TypeVar("C", bound=ServiceSettings)


@dataclass(frozen=True)
class Worker:
    """A worker, and the network on the way to it."""

    name: str
    link: Link
    client: GrpcWorkerClient
    """Calls it past that network."""
    address: str
    """Its own address, past that network."""

    async def status(self) -> WorkerStatus:
        return await self.client.get_status(ANSWER_SECONDS)

    def lose(self) -> None:
        """Makes the worker one that is gone for all others, from one moment to the next."""
        self.link.partition()
        self.link.reset()


@dataclass(frozen=True)
class InProcessPlatform:
    """Handles to a platform that is ready."""

    https: Sequence[str]
    """URL of the REST bridge of each gateway."""
    grpc: str
    """Address of the public gRPC API."""
    workers: Sequence[Worker]

    @property
    def http(self) -> str:
        """URL of the first REST bridge."""
        return self.https[0]


@dataclass(frozen=True)
class Shape:
    """Description of a platform."""

    models: Mapping[str, Path]
    """Folder of each model, by name."""
    workers: Sequence[Mapping[str, Any]]
    """Settings of each worker: at least `model`, and `engine` or `folder`."""
    settings: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Further settings, by kind of service."""
    gateway_count: int = 1


@contextlib.asynccontextmanager
async def in_process_platform(shape: Shape, folder: Path) -> AsyncIterator[InProcessPlatform]:
    """Starts a platform that keeps its files in `folder`, and stops it in the order in which the real one stops. Raises
    TimeoutError if it is not ready within START_SECONDS."""
    async with AsyncExitStack() as stack:
        building = _Building(stack, shape, MemoryBus())
        cache = await building.serve(open_cache, CacheSettings, "cache", folder=folder / "cache")
        tokenizer = await building.serve(
            partial(open_tokenizer, make_pool=InProcessTexts), TokenizerSettings, "tokenizer", models=shape.models
        )
        scheduler = await building.serve(open_scheduler, SchedulerSettings, "scheduler", cache_addresses=cache)
        workers = [await building.serve_worker(number) for number in range(len(shape.workers))]
        addresses = {"cache": cache, "tokenizer": tokenizer, "scheduler": scheduler}
        settings = {f"{kind}_addresses": address for kind, address in addresses.items()}
        gateways = [await building.serve_gateway(number, settings) for number in range(shape.gateway_count)]
        platform = InProcessPlatform([url for url, _ in gateways], gateways[0][1], workers)
        for url in platform.https:
            await _wait_until_whole(url, sum(len(each.get("models", ())) or 1 for each in shape.workers))
        yield platform


class _Building:
    """Opens services one after the other."""

    def __init__(self, stack: AsyncExitStack, shape: Shape, bus: MemoryBus) -> None:
        self._stack = stack
        self._shape = shape
        self._bus = bus

    async def serve(
        self,
        open_app: Callable[..., AbstractAsyncContextManager[Service]],
        schema: type[C],
        kind: str,
        **settings: Any,
    ) -> str:
        """Returns the address at which others reach the service."""
        usual = {"listen_address": "127.0.0.1:0", "drain_seconds": STOP_SECONDS}
        made = schema.model_validate(usual | settings | dict(self._shape.settings.get(kind, {})))
        service = await self._stack.enter_async_context(open_app(made, open_bus=self._open_bus))
        return await self._stack.enter_async_context(serving(made, service))

    async def serve_gateway(self, number: int, settings: Mapping[str, str]) -> tuple[str, str]:
        """Returns the URL of its REST bridge, and its address of the public gRPC API."""
        name = f"gateway-{number}" if number else "gateway"
        http = socket.create_server(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{http.getsockname()[1]}"
        own = {"service_id": name, "http_socket": http.detach()}
        registry = CollectorRegistry() if number else REGISTRY
        opened = partial(open_gateway, registry=registry)
        return url, await self.serve(opened, GatewaySettings, "gateway", **own, **settings)

    async def serve_worker(self, number: int) -> Worker:
        name, link, own = f"worker-{number}", Link(), _free_address()
        proxy = TcpProxy(own, lambda _: link)
        await proxy.start()
        self._stack.push_async_callback(proxy.close)
        reached = {"service_id": name, "listen_address": own, "advertise_address": proxy.address}
        await self.serve(open_worker, WorkerSettings, "worker", **reached, **self._shape.workers[number])
        channel = await self._stack.enter_async_context(open_channel(own))
        return Worker(name, link, GrpcWorkerClient(channel), own)

    def _open_bus(self, _settings: ServiceSettings) -> InProcessBus:
        return InProcessBus(self._bus)


def _free_address() -> str:
    return f"127.0.0.1:{free_ports(1)[0]}"


async def _wait_until_whole(url: str, worker_count: int) -> None:
    async with asyncio.timeout(START_SECONDS), httpx2.AsyncClient(base_url=url) as client:
        while not _is_whole((await client.get("/ready")).json(), worker_count):  # noqa: ASYNC110 - it can only be asked
            await asyncio.sleep(0.02)


def _is_whole(report: Mapping[str, Any], worker_count: int) -> bool:
    return report.get("status") == "ready" and report.get("workers_ready") == worker_count
