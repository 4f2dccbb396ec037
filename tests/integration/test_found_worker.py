"""A worker is routable once a gateway has attached to it."""

import asyncio
import time
from pathlib import Path

import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from tests.integration.in_process_bus import InProcessBus
from tests.integration.in_process_platform import Shape, in_process_platform

from headrace.bus.memory_bus import MemoryBus
from headrace.demo_model import CHECKPOINT
from headrace.lifecycle.run import serving
from headrace.rpc.channel import open_channel
from headrace.rpc.server import ROUTABLE
from headrace.worker.app import open_app
from headrace.worker.config import WorkerSettings

pytestmark = pytest.mark.anyio
SETTINGS = {"model": "demo", "engine": "sim"}


async def is_routable(address: str) -> bool:
    async with open_channel(address) as channel:
        stub = health_pb2_grpc.HealthStub(channel)
        answer = await stub.Check(health_pb2.HealthCheckRequest(service=ROUTABLE), timeout=10)
        return bool(answer.status == health_pb2.HealthCheckResponse.SERVING)


async def test_a_worker_alone_is_not() -> None:
    settings = WorkerSettings.model_validate(SETTINGS | {"listen_address": "127.0.0.1:0", "drain_seconds": 0.2})
    async with (
        open_app(settings, lambda _: InProcessBus(MemoryBus())) as service,
        serving(settings, service) as address,
    ):
        assert not await is_routable(address)


async def test_a_worker_that_a_gateway_has_heard_of_is(tmp_path: Path) -> None:
    async with in_process_platform(Shape({"demo": CHECKPOINT}, [SETTINGS]), tmp_path) as platform:
        deadline = time.monotonic() + 10
        while not await is_routable(platform.workers[0].address):
            assert time.monotonic() < deadline
            await asyncio.sleep(0.01)
