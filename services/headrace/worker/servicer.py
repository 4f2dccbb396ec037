"""WorkerService: converts, calls, converts."""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from typing import Any

import grpc

from headrace import failpoints
from headrace.domain.deadline import Deadline
from headrace.errors import InvalidRequest, Unsupported
from headrace.v1 import worker_pb2 as pb
from headrace.v1 import worker_pb2_grpc
from headrace.worker.requests.drain import drain
from headrace.worker.requests.outbox import Outbox
from headrace.worker.requests.runtime import Runtime
from headrace.worker.requests.translation import to_assignments, to_frame, to_outcome
from headrace.worker.status.status_board import StatusBoard
from headrace.worker.status.translation import to_model_info, to_responses, to_worker_status
from headrace.worker.transfer.translation import to_prefill_order, to_prefill_response

Context = grpc.aio.ServicerContext[Any, Any]
SIGN_OF_LIFE_INTERVAL = 0.4
HELLO_TIMEOUT = 10.0


class WorkerServicer(worker_pb2_grpc.WorkerServiceServicer):
    """Serves one runtime."""

    def __init__(
        self,
        runtime: Runtime,
        board: StatusBoard,
        worker_id: str,
        epoch: int,
        end: Callable[[float], None],
        pin: Callable[[str, bool], None],
    ) -> None:
        """`end` begins to drain the process, and takes the patience in seconds. `pin` has a model of the process stay
        awake, or take turns. Raises HeadraceError where it cannot."""
        self._runtime = runtime
        self._end = end
        self._pin = pin
        self._board = board
        self._worker_id = worker_id
        self._epoch = epoch

    async def Dispatch(self, request: pb.DispatchRequest, context: Context) -> pb.DispatchResponse:  # noqa: N802
        await failpoints.pause("dispatch.arrive")
        refusals = self._runtime.accept_batch(
            to_assignments(request.members, self._runtime.spec.default_sampling), request.fence
        )
        await failpoints.pause("dispatch.answer")
        return pb.DispatchResponse(outcomes=map(to_outcome, refusals), status=self.status())

    async def Watch(  # noqa: N802
        self, request: pb.WatchRequest, context: Context
    ) -> AsyncIterator[pb.WatchResponse]:
        async with contextlib.aclosing(self._board.watch()) as statuses:
            async for status in statuses:
                yield pb.WatchResponse(status=to_worker_status(status))

    async def GetWorkerStatus(  # noqa: N802
        self, request: pb.GetWorkerStatusRequest, context: Context
    ) -> pb.GetWorkerStatusResponse:
        return pb.GetWorkerStatusResponse(status=self.status())

    async def ListBlocks(  # noqa: N802
        self, request: pb.ListBlocksRequest, context: Context
    ) -> AsyncIterator[pb.ListBlocksResponse]:
        for response in to_responses(self._board.blocks.list_blocks()):
            yield response

    async def Prefill(  # noqa: N802
        self, request: pb.PrefillRequest, context: Context
    ) -> AsyncGenerator[pb.PrefillResponse, None]:
        exports = self._runtime.transfers.exports
        if exports is None:
            raise Unsupported("this worker computes no prompts for others: see its setting role, and its engine")
        async with contextlib.aclosing(exports.stream(to_prefill_order(request))) as packets:
            async for packet in packets:
                yield to_prefill_response(packet)

    async def Drain(self, request: pb.DrainRequest, context: Context) -> pb.DrainResponse:  # noqa: N802
        self._end(request.patience_duration.ToTimedelta().total_seconds())
        return pb.DrainResponse(status=self.status())

    async def Pin(self, request: pb.PinRequest, context: Context) -> pb.PinResponse:  # noqa: N802
        self._pin(request.model, request.is_pinned)
        return pb.PinResponse()

    async def Attach(  # noqa: N802
        self, request_iterator: AsyncIterator[pb.AttachRequest], context: Context
    ) -> AsyncIterator[pb.AttachResponse]:
        async with asyncio.timeout(HELLO_TIMEOUT):
            first = await anext(request_iterator)
        if not first.hello.gateway_id:
            raise InvalidRequest("the first message of Attach must be a hello with a gateway id")
        gateway_id = first.hello.gateway_id
        outbox = self._runtime.attach(gateway_id)
        reader = asyncio.create_task(self._read(request_iterator, outbox), name=f"attach-{gateway_id}")
        reader.add_done_callback(lambda _: outbox.close())
        try:
            yield pb.AttachResponse(hello=self._hello())
            while (frame := await outbox.next_frame(SIGN_OF_LIFE_INTERVAL)) is not None:
                yield pb.AttachResponse(frame=to_frame(frame))
        finally:
            self._runtime.detach(gateway_id, outbox)
            reader.cancel()
            with contextlib.suppress(asyncio.CancelledError, grpc.aio.AioRpcError):
                await reader

    def status(self) -> pb.WorkerStatus:
        """Returns the load now."""
        return to_worker_status(self._board.status())

    async def drain(self, patience: float, deadline: Deadline) -> None:
        """Lets running requests end or move, then ends the watches, which are endless: see `drain`."""
        await drain(self._runtime, patience, deadline)
        self._board.close()

    def _hello(self) -> pb.WorkerHello:
        board = self._board
        return pb.WorkerHello(
            worker_id=self._worker_id, epoch=self._epoch, model_info=to_model_info(board.spec, board.model)
        )

    async def _read(self, commands: AsyncIterator[pb.AttachRequest], outbox: Outbox) -> None:
        async for command in commands:
            match command.WhichOneof("command"):
                case "cancellation":
                    self._runtime.cancel(command.cancellation.request_id, command.cancellation.attempt)
                case "inquiry":
                    self._runtime.inquire(
                        ((each.request_id, each.attempt) for each in command.inquiry.requests), outbox
                    )
