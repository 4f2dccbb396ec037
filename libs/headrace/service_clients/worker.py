"""Calls a worker."""

from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from typing import Protocol

import grpc

from headrace.rpc.boundary import translated
from headrace.rpc.channel import Channel
from headrace.rpc.written_stream import written_stream
from headrace.service_clients.block_list import BlockList
from headrace.v1 import worker_pb2, worker_pb2_grpc

STAGE = "dispatch"


class WorkerClient(Protocol):
    """Every method raises HeadraceError; `timeout` is in seconds."""

    async def dispatch(
        self, members: Sequence[worker_pb2.BatchMember], timeout: float, fence: int = 0
    ) -> worker_pb2.DispatchResponse:
        """Hands over a batch. `fence`: number of the lease under which the caller leads the model, 0 for none."""

    async def get_status(self, timeout: float) -> worker_pb2.WorkerStatus: ...

    async def drain(self, patience: float, timeout: float) -> worker_pb2.WorkerStatus:
        """Has the worker move its requests to others after `patience` seconds, and end."""

    async def list_blocks(self, timeout: float) -> BlockList:
        """Lists the KV blocks that the worker holds."""

    def watch(self) -> AsyncIterator[worker_pb2.WorkerStatus]:
        """Opens the status stream. It lives until one side ends it; the caller watches it for silence."""

    def attach(self, commands: AsyncIterator[worker_pb2.AttachRequest]) -> AsyncIterator[worker_pb2.AttachResponse]:
        """Opens the frame stream. It lives until one side ends it; the caller watches it for silence."""

    def prefill(
        self, request: worker_pb2.PrefillRequest, timeout: float
    ) -> AsyncGenerator[worker_pb2.PrefillResponse, None]:
        """Fetches the KV blocks of a prompt. Closing the generator ends the call."""

    async def close(self) -> None:
        """Ends every call and closes the connection."""


class GrpcWorkerClient:
    """WorkerClient over gRPC."""

    def __init__(self, channel: grpc.aio.Channel) -> None:
        self._channel = channel
        self._stub: worker_pb2_grpc.WorkerServiceAsyncStub = worker_pb2_grpc.WorkerServiceStub(channel)

    async def dispatch(
        self, members: Sequence[worker_pb2.BatchMember], timeout: float, fence: int = 0
    ) -> worker_pb2.DispatchResponse:
        request = worker_pb2.DispatchRequest(members=members, fence=fence)
        with translated(STAGE):
            return await self._stub.Dispatch(request, timeout=timeout)

    async def get_status(self, timeout: float) -> worker_pb2.WorkerStatus:
        with translated(STAGE):
            response = await self._stub.GetWorkerStatus(worker_pb2.GetWorkerStatusRequest(), timeout=timeout)
        return response.status

    async def drain(self, patience: float, timeout: float) -> worker_pb2.WorkerStatus:
        request = worker_pb2.DrainRequest()
        request.patience_duration.FromNanoseconds(int(patience * 1e9))
        with translated(STAGE):
            response = await self._stub.Drain(request, timeout=timeout)
        return response.status

    async def list_blocks(self, timeout: float) -> BlockList:
        with translated("cache"):
            responses = self._stub.ListBlocks(worker_pb2.ListBlocksRequest(), timeout=timeout)
            return BlockList.joined([response async for response in responses])

    async def watch(self) -> AsyncIterator[worker_pb2.WorkerStatus]:
        with translated("schedule"):
            async for response in self._stub.Watch(worker_pb2.WatchRequest()):
                yield response.status

    async def attach(
        self, commands: AsyncIterator[worker_pb2.AttachRequest]
    ) -> AsyncIterator[worker_pb2.AttachResponse]:
        with translated("decode"):
            call = self._stub.Attach()
            async with written_stream(call, commands):
                async for response in call:
                    yield response

    async def prefill(
        self, request: worker_pb2.PrefillRequest, timeout: float
    ) -> AsyncGenerator[worker_pb2.PrefillResponse, None]:
        with translated("prefill"):
            call = self._stub.Prefill(request, timeout=timeout)
            try:
                async for response in call:
                    yield response
            finally:
                call.cancel()

    async def close(self) -> None:
        await self._channel.close()


async def set_pin(channel: Channel, model: str, timeout: float, *, is_pinned: bool) -> None:
    """Has the worker at the end of a channel keep a model awake, or let it take turns, and closes the channel. Raises
    HeadraceError."""
    stub: worker_pb2_grpc.WorkerServiceAsyncStub = worker_pb2_grpc.WorkerServiceStub(channel)
    try:
        with translated(STAGE):
            await stub.Pin(worker_pb2.PinRequest(model=model, is_pinned=is_pinned), timeout=timeout)
    finally:
        await channel.close()
