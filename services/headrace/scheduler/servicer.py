"""SchedulerService: converts, calls, converts."""

import asyncio
import time
from collections.abc import Callable
from typing import Any

import grpc

from headrace.errors import InvalidRequest, Overloaded
from headrace.rpc.checked_ids import check_token_ids
from headrace.rpc.deadline import Deadline
from headrace.scheduler.dispatcher import Dispatcher
from headrace.scheduler.model_queue import Pending
from headrace.scheduler.worker_table import WorkerTable
from headrace.service import Background
from headrace.telemetry.traces import span
from headrace.v1 import scheduler_pb2 as pb
from headrace.v1 import scheduler_pb2_grpc

Context = grpc.aio.ServicerContext[Any, Any]
DEFAULT_SECONDS = 600.0
MAX_MODELS = 1000


class SchedulerServicer(scheduler_pb2_grpc.SchedulerServiceServicer):
    """One dispatcher per model that was asked for."""

    def __init__(
        self,
        table: WorkerTable,
        make_dispatcher: Callable[[str], Dispatcher],
        max_waiting_count: int,
        background: Background,
    ) -> None:
        self._table = table
        self._make_dispatcher = make_dispatcher
        self._max_waiting_count = max_waiting_count
        self._dispatchers: dict[str, Dispatcher] = {}
        self._background = background

    async def Submit(self, request: pb.SubmitRequest, context: Context) -> pb.SubmitResponse:  # noqa: N802
        generation = request.generation
        self._check(generation)
        dispatcher = self._dispatcher(generation.model)
        # What was accepted once is not refused for want of room: its stream would break in the middle.
        if generation.attempt <= 1 and len(dispatcher.queue) >= self._max_waiting_count:
            raise Overloaded(
                f"{len(dispatcher.queue)} requests already wait for {generation.model}", stage="queue", retry_after=1
            )
        remaining = context.time_remaining()
        pending = Pending(
            request=request,
            deadline=Deadline.after(DEFAULT_SECONDS if remaining is None else remaining),
            arrival=time.monotonic(),
            placement=asyncio.get_running_loop().create_future(),
        )
        with span("schedule", {"gen_ai.request.model": generation.model, "headrace.request_id": generation.request_id}):
            dispatcher.submit(pending)
            return await pending.placement

    async def GetSchedule(self, request: pb.GetScheduleRequest, context: Context) -> pb.GetScheduleResponse:  # noqa: N802
        workers = [
            pb.WorkerView(
                worker_id=entry.worker_id,
                model=entry.model,
                credit_count=entry.free_count,
                silence_seconds=self._table.silence_of(entry),
            )
            for entry in self._table.entries
        ]
        return pb.GetScheduleResponse(queues=self.queues(), workers=workers)

    def queues(self) -> list[pb.ModelQueue]:
        return [
            pb.ModelQueue(model=model, waiting_count=len(dispatcher.queue), window_seconds=dispatcher.window_seconds)
            for model, dispatcher in self._dispatchers.items()
        ]

    def _check(self, generation: pb.Generation) -> None:
        if not generation.prompt_token_ids:
            raise InvalidRequest("the prompt has no tokens", param="prompt")
        size = self._table.vocabulary_size(generation.model)
        check_token_ids(generation.prompt_token_ids, size, "prompt_token_ids")
        check_token_ids(generation.output_token_ids, size, "output_token_ids")

    def _dispatcher(self, model: str) -> Dispatcher:
        dispatcher = self._dispatchers.get(model)
        if dispatcher is None:
            if len(self._dispatchers) >= MAX_MODELS:
                raise Overloaded(f"{MAX_MODELS} models are in use; no queue for another", stage="queue")
            dispatcher = self._dispatchers[model] = self._make_dispatcher(model)
            self._background.start(dispatcher.run(), f"dispatch-{model}")
        return dispatcher
