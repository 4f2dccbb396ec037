"""WorkerService of several models: finds the one that a call means."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import aclosing
from typing import Any

import grpc

from headrace.errors import Unavailable
from headrace.rpc.member_address import named
from headrace.v1 import worker_pb2 as pb
from headrace.v1 import worker_pb2_grpc
from headrace.worker.servicer import WorkerServicer

Context = grpc.aio.ServicerContext[Any, Any]


class HostServicer(worker_pb2_grpc.WorkerServiceServicer):
    """Passes each call on to the worker that its metadata names. A call that names none means the first."""

    def __init__(self, workers: Mapping[str, WorkerServicer]) -> None:
        self._workers = workers
        self.found = asyncio.Event()
        """Set once a gateway has attached."""

    async def Dispatch(self, request: pb.DispatchRequest, context: Context) -> pb.DispatchResponse:  # noqa: N802
        return await self._meant(context).Dispatch(request, context)

    async def Watch(self, request: pb.WatchRequest, context: Context) -> AsyncIterator[pb.WatchResponse]:  # noqa: N802
        async for response in self._meant(context).Watch(request, context):
            yield response

    async def GetWorkerStatus(  # noqa: N802
        self, request: pb.GetWorkerStatusRequest, context: Context
    ) -> pb.GetWorkerStatusResponse:
        return await self._meant(context).GetWorkerStatus(request, context)

    async def ListBlocks(  # noqa: N802
        self, request: pb.ListBlocksRequest, context: Context
    ) -> AsyncIterator[pb.ListBlocksResponse]:
        async for response in self._meant(context).ListBlocks(request, context):
            yield response

    async def Attach(  # noqa: N802
        self, request_iterator: AsyncIterator[pb.AttachRequest], context: Context
    ) -> AsyncIterator[pb.AttachResponse]:
        async for response in self._meant(context).Attach(request_iterator, context):
            self.found.set()
            yield response

    async def Prefill(  # noqa: N802
        self, request: pb.PrefillRequest, context: Context
    ) -> AsyncGenerator[pb.PrefillResponse, None]:
        async with aclosing(self._meant(context).Prefill(request, context)) as responses:
            async for response in responses:
                yield response

    async def Drain(self, request: pb.DrainRequest, context: Context) -> pb.DrainResponse:  # noqa: N802
        return await self._meant(context).Drain(request, context)

    async def Pin(self, request: pb.PinRequest, context: Context) -> pb.PinResponse:  # noqa: N802
        return await self._meant(context).Pin(request, context)

    def _meant(self, context: Context) -> WorkerServicer:
        """Raises Unavailable for a worker that is not here."""
        name = named(context.invocation_metadata())
        if not name:
            return next(iter(self._workers.values()))
        if name not in self._workers:
            raise Unavailable(f"worker {name} is not behind this address", stage="dispatch")
        return self._workers[name]
