"""A service exits when a task it depends on fails."""

import asyncio
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Any

import pytest
from tests.grpc_leftovers import ANYIO_BACKEND
from tests.harness.free_ports import free_ports

from headrace.gateway.app import open_app as open_gateway
from headrace.gateway.config import GatewaySettings
from headrace.gateway.fleet.platform_health import PlatformHealth
from headrace.gateway.http.server import HttpServer
from headrace.gateway.subscriber import GatewaySubscriber
from headrace.lifecycle import Service
from headrace.scheduler.app import open_app as open_scheduler
from headrace.scheduler.config import SchedulerSettings
from headrace.scheduler.leases import Leases
from headrace.scheduler.publisher import SchedulerPublisher
from headrace.scheduler.scheduler import Scheduler
from headrace.scheduler.subscriber import SchedulerSubscriber
from headrace.service_clients.scheduler import SchedulerStream
from headrace.worker.app import open_app as open_worker
from headrace.worker.config import WorkerSettings
from headrace.worker.publisher import WorkerPublisher

pytestmark = pytest.mark.anyio


@pytest.fixture(scope="module")
def anyio_backend() -> tuple[str, dict[str, Any]]:
    return ANYIO_BACKEND


@pytest.fixture(scope="module", autouse=True)
async def _one_loop() -> None:
    """Keeps one event loop for all tests, so that grpc has no other to tell of their calls."""


@pytest.fixture
def nobody() -> str:
    """The address of a NATS that is not there."""
    return f"nats://127.0.0.1:{free_ports(1)[0]}"


async def fail(*_: Any) -> None:
    await asyncio.sleep(0)
    raise RuntimeError("broken")


def scheduler(nats: str) -> AbstractAsyncContextManager[Service]:
    return open_scheduler(SchedulerSettings(nats_url=nats))


def gateway(nats: str) -> AbstractAsyncContextManager[Service]:
    return open_gateway(GatewaySettings(nats_url=nats, http_address="127.0.0.1:0"))


def worker(nats: str) -> AbstractAsyncContextManager[Service]:
    return open_worker(WorkerSettings(nats_url=nats, model="m", engine="sim"))


@pytest.mark.parametrize(
    ("open_app", "owner", "method", "name"),
    [
        (scheduler, SchedulerSubscriber, "follow_registry", "registry"),
        (scheduler, SchedulerPublisher, "beat", "heartbeat"),
        (scheduler, Scheduler, "keep_ticking", "ticks"),
        (scheduler, Leases, "keep_renewing", "leases"),
        (gateway, SchedulerStream, "run", "scheduler-stream-0"),
        (gateway, PlatformHealth, "watch", "health"),
        (gateway, GatewaySubscriber, "follow_registry", "registry"),
        (worker, WorkerPublisher, "beat", "heartbeat"),
        (worker, WorkerPublisher, "tell_blocks", "blocks"),
    ],
)
async def test_a_task_that_fails_is_noticed(
    monkeypatch: pytest.MonkeyPatch,
    nobody: str,
    open_app: Callable[[str], AbstractAsyncContextManager[Service]],
    owner: type,
    method: str,
    name: str,
) -> None:
    monkeypatch.setattr(owner, method, fail)
    async with open_app(nobody) as service:
        failure = await asyncio.wait_for(service.background.failure(), 5)
    assert f"the task {name} failed with RuntimeError('broken')" in failure.message


async def test_the_server_of_http_is_watched(monkeypatch: pytest.MonkeyPatch, nobody: str) -> None:
    async def start(self: HttpServer) -> "asyncio.Task[None]":
        return asyncio.create_task(fail(), name="http")

    monkeypatch.setattr(HttpServer, "start", start)
    async with gateway(nobody) as service:
        failure = await asyncio.wait_for(service.background.failure(), 5)
    assert "the task http failed" in failure.message
