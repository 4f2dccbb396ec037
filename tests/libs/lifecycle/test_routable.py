"""A service is routable once its callers have found it, and until it stops."""

import asyncio
import time

import grpc.aio
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from headrace.bus.memory_bus import MemoryBus
from headrace.domain.deadline import Deadline
from headrace.lifecycle import Service, ServiceSettings
from headrace.lifecycle.run import serving
from headrace.rpc.channel import open_channel
from headrace.rpc.health import is_serving
from headrace.rpc.server import ROUTABLE

pytestmark = pytest.mark.anyio
SECONDS = 10.0


async def is_routable(channel: grpc.aio.Channel) -> bool:
    stub = health_pb2_grpc.HealthStub(channel)
    answer = await stub.Check(health_pb2.HealthCheckRequest(service=ROUTABLE), timeout=SECONDS)
    return bool(answer.status == health_pb2.HealthCheckResponse.SERVING)


async def until_routable(channel: grpc.aio.Channel) -> None:
    deadline = time.monotonic() + SECONDS
    while not await is_routable(channel):
        assert time.monotonic() < deadline
        await asyncio.sleep(0.01)


async def test_a_service_whose_address_is_known_is_routable_once_it_serves() -> None:
    made = Service(kind="cache", bus=MemoryBus(), bind=lambda _: None, service_names=[], epoch=1)
    async with serving(ServiceSettings.of(service_id="s"), made) as address, open_channel(address) as channel:
        await until_routable(channel)
    await made.background.close()


async def test_a_service_that_has_to_be_found_serves_before_it_is_routable() -> None:
    """It is none any more when it stops, and not one that is found only then."""
    found = asyncio.Event()
    seen: list[bool] = []

    async def drain(_deadline: Deadline) -> None:
        found.set()
        await asyncio.sleep(0)
        seen.append(await is_routable(channel))

    for is_found_first in (True, False):
        found.clear()
        made = Service("worker", MemoryBus(), lambda _: None, [], 1, found=found, drain=drain)
        async with serving(ServiceSettings.of(service_id="s"), made) as address:
            channel = open_channel(address)
            assert await is_serving(channel, SECONDS)
            assert not await is_routable(channel)
            if is_found_first:
                found.set()
                await until_routable(channel)
        await made.background.close()
        await channel.close()
    assert seen == [False, False]
