"""Internal services answer only callers with the platform's credential."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from headrace.errors import Unauthenticated
from headrace.kv.held_prefix import HeldPrefix
from headrace.rpc.channel import open_channel
from headrace.rpc.server import Server
from headrace.service_clients.cache import GrpcCacheClient
from headrace.v1 import cache_pb2 as pb
from headrace.v1 import cache_pb2_grpc, worker_pb2, worker_pb2_grpc

pytestmark = pytest.mark.anyio


class Cache(cache_pb2_grpc.CacheServiceServicer):
    async def LookupPrefix(self, request: pb.LookupPrefixRequest, context: Any) -> pb.LookupPrefixResponse:
        return pb.LookupPrefixResponse(matches=[pb.PrefixMatch(worker_id="w", block_count=1)])


class Worker(worker_pb2_grpc.WorkerServiceServicer):
    async def Attach(self, requests: AsyncIterator[Any], context: Any) -> AsyncIterator[worker_pb2.AttachResponse]:
        async for _ in requests:
            yield worker_pb2.AttachResponse(hello=worker_pb2.WorkerHello(worker_id="w"))


def bind(server: grpc.aio.Server) -> None:
    cache_pb2_grpc.add_CacheServiceServicer_to_server(Cache(), server)  # type: ignore[abstract]
    worker_pb2_grpc.add_WorkerServiceServicer_to_server(Worker(), server)  # type: ignore[abstract]


@pytest.fixture
async def address() -> AsyncIterator[str]:
    server = Server(bind, ["headrace.v1.CacheService"], "secret")
    yield await server.start("127.0.0.1:0")
    await server.stop(0)


async def first_answer(channel: grpc.aio.Channel, *, greets: bool = True) -> worker_pb2.AttachResponse:
    """Opens a stream. `greets`: whether the caller says something; without, a refusal cannot meet its words on the way,
    which gRPC reports as an internal error."""

    async def commands() -> AsyncIterator[worker_pb2.AttachRequest]:
        if greets:
            yield worker_pb2.AttachRequest(hello=worker_pb2.GatewayHello(gateway_id="g"))
        await asyncio.Event().wait()

    stub: Any = worker_pb2_grpc.WorkerServiceStub(channel)
    async for response in stub.Attach(commands(), timeout=10):
        return response
    raise AssertionError("no answer")


async def test_calls_of_the_platform_are_answered(address: str) -> None:
    async with open_channel(address, "secret") as channel:
        assert await GrpcCacheClient(channel).lookup_prefix("m", [b"x"], 10) == {"w": HeldPrefix(1)}
        assert (await first_answer(channel)).hello.worker_id == "w"


@pytest.mark.parametrize("credential", ["", "other", "secret2", "Bearer secret"])
async def test_other_calls_are_refused(address: str, credential: str) -> None:
    async with open_channel(address, credential) as channel:
        with pytest.raises(Unauthenticated, match="credential"):
            await GrpcCacheClient(channel).lookup_prefix("m", [b"x"], 10)
        with pytest.raises(grpc.aio.AioRpcError) as refusal:
            await first_answer(channel, greets=False)
        assert refusal.value.code() is grpc.StatusCode.UNAUTHENTICATED


async def test_health_is_for_everyone(address: str) -> None:
    async with open_channel(address) as channel:
        stub = health_pb2_grpc.HealthStub(channel)
        await stub.Check(health_pb2.HealthCheckRequest(), timeout=10)
