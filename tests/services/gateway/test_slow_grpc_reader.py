"""A gRPC client that does not read its stream does not hold the request past its deadline."""

import asyncio
from collections.abc import AsyncGenerator
from types import SimpleNamespace
from typing import Any

import grpc
import pytest
from prometheus_client import REGISTRY

from headrace.gateway.api.grpc.inference_servicer import InferenceServicer
from headrace.gateway.config import GatewaySettings
from headrace.gateway.delivery.text_stream import Piece
from headrace.gateway.fleet.served.served_names import ServedNames
from headrace.gateway.request.ledger import Ledger
from headrace.rpc.channel import open_channel
from headrace.rpc.server import Server
from headrace.v1 import inference_pb2 as pb
from headrace.v1 import inference_pb2_grpc

pytestmark = pytest.mark.anyio


class Pipeline:
    """Writes more than any buffer holds."""

    def __init__(self) -> None:
        self.fleet = SimpleNamespace(find=self._find, names=ServedNames())
        self.prepare = SimpleNamespace(completion=self._completion)

    async def _find(self, model: str) -> None:
        return

    async def _completion(self, *arguments: Any) -> Any:
        return SimpleNamespace(prompts=[[1]], envelope=arguments[-1])

    async def generate(self, job: Any) -> AsyncGenerator[Piece, None]:
        while True:
            await asyncio.sleep(0)
            yield Piece("x" * 100_000, [1])


def outcomes(outcome: str) -> float:
    return REGISTRY.get_sample_value("headrace_requests_total", {"model": "slow", "outcome": outcome}) or 0.0


async def read_all(call: Any) -> None:
    while await call.read() is not grpc.aio.EOF:
        pass


async def test_a_stream_that_nobody_reads_ends_at_its_deadline() -> None:
    ledger = Ledger(8)
    pipeline: Any = Pipeline()
    servicer = InferenceServicer(GatewaySettings(default_timeout_seconds=0.3), pipeline, ledger)
    server = Server(
        lambda grpc_server: inference_pb2_grpc.add_InferenceServiceServicer_to_server(servicer, grpc_server), []
    )
    address = await server.start("127.0.0.1:0")
    before = outcomes("deadline_exceeded")
    try:
        async with open_channel(address) as channel, asyncio.timeout(20):
            stub: Any = inference_pb2_grpc.InferenceServiceStub(channel)
            call = stub.StreamGenerate(pb.StreamGenerateRequest(model="slow", text="a"))
            assert await call.read() is not grpc.aio.EOF
            assert len(ledger) == 1
            while len(ledger):  # noqa: ASYNC110 - it is another task's doing
                await asyncio.sleep(0.01)
            assert outcomes("deadline_exceeded") == before + 1
            with pytest.raises(grpc.aio.AioRpcError) as failure:
                await read_all(call)
            assert failure.value.code() == grpc.StatusCode.DEADLINE_EXCEEDED
    finally:
        await server.stop(0)
