"""A connection that leads nowhere does not hold up calls for as long as TCP would."""

import asyncio
import time

import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from tests.harness.connection import Link
from tests.harness.tcp_proxy import TcpProxy

from headrace.errors import Unavailable
from headrace.rpc.boundary import translated
from headrace.rpc.channel import open_channel
from headrace.rpc.server import Server

pytestmark = [pytest.mark.anyio, pytest.mark.slow]
TIMEOUT = 60.0
"""Longer than TCP, and than gRPC by default, takes to give a silent connection up."""


async def check(stub: health_pb2_grpc.HealthStub) -> None:
    with translated("tokenize"):
        await stub.Check(health_pb2.HealthCheckRequest(), timeout=TIMEOUT)


@pytest.mark.parametrize("disturb", [Link.half_open, Link.cut_there, Link.cut_back])
async def test_a_call_over_a_connection_that_leads_nowhere_fails_soon(disturb: object) -> None:
    server, link = Server(lambda _: None, []), Link()
    proxy = TcpProxy(await server.start("127.0.0.1:0"), lambda _: link)
    await proxy.start()
    channel = open_channel(proxy.address)
    stub: health_pb2_grpc.HealthStub = health_pb2_grpc.HealthStub(channel)
    try:
        await check(stub)
        disturb(link)  # type: ignore[operator]
        start = time.monotonic()
        with pytest.raises(Unavailable):
            await check(stub)
        assert time.monotonic() - start < TIMEOUT / 4
        link.heal()
        async with asyncio.timeout(TIMEOUT):
            while True:
                try:
                    await check(stub)
                except Unavailable:
                    await asyncio.sleep(0.05)
                else:
                    break
    finally:
        await channel.close()
        await server.stop(0)
        await proxy.close()


async def test_a_silent_connection_stays() -> None:
    server, link = Server(lambda _: None, []), Link()
    proxy = TcpProxy(await server.start("127.0.0.1:0"), lambda _: link)
    await proxy.start()
    channel = open_channel(proxy.address)
    stub: health_pb2_grpc.HealthStub = health_pb2_grpc.HealthStub(channel)
    try:
        await check(stub)
        (first,) = link.connections
        watching = stub.Watch(health_pb2.HealthCheckRequest())
        await watching.read()
        await asyncio.sleep(4)
        assert link.connections == {first}
        assert not watching.done()
    finally:
        await channel.close()
        await server.stop(0)
        await proxy.close()
