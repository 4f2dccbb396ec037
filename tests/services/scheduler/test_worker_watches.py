"""A worker that did not answer a dispatch is trusted again when it answers one, whatever it says on its stream."""

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from headrace.lifecycle import Background
from headrace.rpc.channel import open_channel
from headrace.rpc.server import Server
from headrace.scheduler import worker_watches
from headrace.scheduler.core import events
from headrace.scheduler.worker_watches import WorkerWatches
from headrace.v1 import worker_pb2 as pb
from headrace.v1 import worker_pb2_grpc

pytestmark = pytest.mark.anyio


class Worker(worker_pb2_grpc.WorkerServiceServicer):
    """Says how it is many times a second, and answers dispatches when it may."""

    def __init__(self) -> None:
        self.may_answer = asyncio.Event()
        self.may_answer.set()
        self.dispatch_count = 0
        self._version = 0

    async def Dispatch(self, request: pb.DispatchRequest, context: Any) -> pb.DispatchResponse:
        self.dispatch_count += 1
        await self.may_answer.wait()
        return pb.DispatchResponse(status=self._status())

    async def Watch(self, request: pb.WatchRequest, context: Any) -> AsyncIterator[pb.WatchResponse]:
        while True:
            yield pb.WatchResponse(status=self._status())
            await asyncio.sleep(0.02)

    def _status(self) -> pb.WorkerStatus:
        self._version += 1
        return pb.WorkerStatus(worker_id="w", epoch=1, version=self._version)


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(20):
        while not condition():  # noqa: ASYNC110 - it is another task's doing
            await asyncio.sleep(0.005)


async def test_a_doubted_worker_has_to_answer_a_dispatch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker_watches, "PROBE_SECONDS", 0.2)
    worker = Worker()  # type: ignore[abstract]
    told, background = list[events.Event](), Background()
    server = Server(lambda to: worker_pb2_grpc.add_WorkerServiceServicer_to_server(worker, to), [])
    address = await server.start("127.0.0.1:0")
    watches = WorkerWatches(open_channel, background)
    watches.start(told.append)

    def answered() -> bool:
        return any(isinstance(event, events.WorkerReported) and event.answers for event in told)

    try:
        watches.meet(address)
        await until(answered)
        assert worker.dispatch_count == 0
        worker.may_answer.clear()
        watches.doubt(address)
        await asyncio.sleep(0)
        told.clear()
        await until(lambda: worker.dispatch_count >= 3)
        assert not answered()
        worker.may_answer.set()
        await until(answered)
    finally:
        await watches.close()
        await background.close()
        await server.stop(0)
