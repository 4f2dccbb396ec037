"""Asks a scheduler for places, over one stream for all requests of a gateway."""

import asyncio
import logging
import random
import time
from collections.abc import AsyncIterator, Mapping
from typing import Protocol

import grpc

from headrace.errors import HeadraceError
from headrace.errors.status import from_status
from headrace.errors.tree import SchedulerGone
from headrace.rpc.boundary import translated
from headrace.rpc.written_stream import written_stream
from headrace.telemetry.call_metadata import outgoing_metadata
from headrace.v1 import scheduler_pb2 as pb
from headrace.v1 import scheduler_pb2_grpc

STAGE = "schedule"
WORKER_DETAIL = "worker"
"""Key, in an error's details, of the worker that did not take a request."""
LEADER_DETAIL = "leader"
"""Key, in an error's details, of the scheduler that leads the model instead."""
SILENCE_SECONDS = 1.0
"""Seconds of silence after which a scheduler counts as gone: it sends a heartbeat four times a second."""
PATIENCE_SECONDS = 0.05
"""Longest wait, in seconds, of a command that is not urgent."""
MAX_COMMANDS = 64
"""Maximum number of commands in one message, because its size is limited."""
RETRY_SECONDS = (0.05, 0.1, 0.2, 0.5)

_log = logging.getLogger(__name__)


class SchedulerClient(Protocol):
    """Places requests."""

    async def submit(self, submission: pb.Submission, remaining_seconds: float) -> pb.Place:
        """Waits for a place. `remaining_seconds`: time that the request has left. Cancelling the task leaves the queue.
        Raises HeadraceError, and SchedulerGone when the scheduler is lost meanwhile."""

    def settle(self, settlement: pb.Settlement) -> None:
        """Reports what a request has used. Does nothing while the scheduler is away."""


class _Commands:
    """Commands of one stream. A broken stream may keep reading its own commands, never those of the next stream."""

    def __init__(self) -> None:
        self._waiting: list[pb.ScheduleCommand] = []
        self._due = asyncio.Event()

    def put(self, command: pb.ScheduleCommand) -> None:
        """Sends a command as soon as the stream takes it, together with all others that are waiting."""
        self._waiting.append(command)
        self._due.set()

    def put_later(self, command: pb.ScheduleCommand) -> None:
        """Sends a command with the next urgent ones, or soon."""
        if not self._waiting:
            asyncio.get_running_loop().call_later(PATIENCE_SECONDS, self._due.set)
        self._waiting.append(command)

    async def outgoing(self) -> AsyncIterator[pb.ScheduleRequest]:
        while True:
            await self._due.wait()
            self._due.clear()
            while self._waiting:
                taken, self._waiting = self._waiting[:MAX_COMMANDS], self._waiting[MAX_COMMANDS:]
                yield pb.ScheduleRequest(commands=taken)


class SchedulerStream:
    """SchedulerClient over a stream that is reopened whenever it breaks."""

    def __init__(self, channel: grpc.aio.Channel) -> None:
        self._stub: scheduler_pb2_grpc.SchedulerServiceAsyncStub = scheduler_pb2_grpc.SchedulerServiceStub(channel)
        self._places: dict[tuple[str, int], asyncio.Future[pb.Place]] = {}
        self._commands = _Commands()
        self._sign: pb.SchedulerSign | None = None
        self.answered_at = float("-inf")
        """Time of the scheduler's last message, in monotonic seconds."""

    @property
    def alive(self) -> bool:
        """Whether the scheduler answers."""
        return self._sign is not None

    @property
    def scheduler_id(self) -> str:
        """Id of the scheduler. Empty while it does not answer."""
        return "" if self._sign is None else self._sign.scheduler_id

    @property
    def queues(self) -> Mapping[str, pb.ModelQueue]:
        """Queues by model, as last reported."""
        return {} if self._sign is None else {queue.model: queue for queue in self._sign.queues}

    async def submit(self, submission: pb.Submission, remaining_seconds: float) -> pb.Place:
        """See SchedulerClient."""
        if not self.alive:
            raise SchedulerGone(stage=STAGE)
        generation = submission.generation
        key = (generation.request_id, generation.attempt)
        place: asyncio.Future[pb.Place] = asyncio.get_running_loop().create_future()
        self._places[key] = place
        command = pb.ScheduleCommand(submission=submission)
        command.submission.remaining_duration.FromNanoseconds(int(remaining_seconds * 1e9))
        self._commands.put(command)
        try:
            return await place
        except asyncio.CancelledError:
            withdrawal = pb.Withdrawal(request_id=key[0], attempt=key[1], model=generation.model)
            self._commands.put(pb.ScheduleCommand(withdrawal=withdrawal))
            raise
        finally:
            if self._places.get(key) is place:
                del self._places[key]

    def settle(self, settlement: pb.Settlement) -> None:
        """See SchedulerClient."""
        if self.alive:
            self._commands.put_later(pb.ScheduleCommand(settlement=settlement))

    async def run(self) -> None:
        """Keeps the stream open until cancelled."""
        failures = 0
        while True:
            try:
                await self._listen()
            except (HeadraceError, TimeoutError) as error:
                if self.alive:
                    _log.warning("lost the scheduler", extra={"error": repr(error)})
                    failures = 0
            finally:
                self._lose()
            pause = RETRY_SECONDS[min(failures, len(RETRY_SECONDS) - 1)]
            failures += 1
            await asyncio.sleep(pause * random.uniform(0.5, 1.0))  # noqa: S311 - spreads the load, guards nothing

    async def _listen(self) -> None:
        """Reads one stream until it breaks or falls silent. Raises HeadraceError or TimeoutError."""
        loop = asyncio.get_running_loop()
        commands = self._commands = _Commands()
        with translated(STAGE):
            call = self._stub.Schedule(metadata=outgoing_metadata())
            async with written_stream(call, commands.outgoing()), asyncio.timeout(SILENCE_SECONDS) as limit:
                async for response in call:
                    limit.reschedule(loop.time() + SILENCE_SECONDS)
                    self.answered_at = time.monotonic()
                    for event in response.events:
                        self._take(event)
        raise SchedulerGone("the scheduler closed the stream", stage=STAGE)

    def _take(self, event: pb.ScheduleEvent) -> None:
        match event.WhichOneof("event"):
            case "sign":
                self._sign = event.sign
            case "placement":
                placement = event.placement
                place = self._places.get((placement.request_id, placement.attempt))
                if place is not None and not place.done():
                    place.set_result(placement.place)
            case "refusal":
                refusal = event.refusal
                place = self._places.get((refusal.request_id, refusal.attempt))
                if place is not None and not place.done():
                    place.set_exception(from_status(refusal.error))

    def _lose(self) -> None:
        """Ends all waits: both sides forget what was said on a stream that broke."""
        self._sign = None
        for place in self._places.values():
            if not place.done():
                place.set_exception(SchedulerGone(stage=STAGE))
        self._places.clear()


async def ask_demand(channel: grpc.aio.Channel, timeout: float) -> dict[str, tuple[int, int]]:
    """Returns, for each model of which a scheduler knows it, the lease under which it leads the model (0: none) and the
    workers that are wanted. `timeout` in seconds. Raises HeadraceError."""
    answer = await get_demand(channel, timeout)
    known = [demand for demand in answer.demands if demand.HasField("wanted_worker_count")]
    return {demand.model: (demand.fence, demand.wanted_worker_count) for demand in known}


async def get_demand(channel: grpc.aio.Channel, timeout: float) -> pb.GetDemandResponse:
    """Returns how many workers a scheduler wants, and why. `timeout` in seconds. Raises HeadraceError."""
    stub: scheduler_pb2_grpc.SchedulerServiceAsyncStub = scheduler_pb2_grpc.SchedulerServiceStub(channel)
    with translated(STAGE):
        return await stub.GetDemand(pb.GetDemandRequest(), timeout=timeout)


async def explain(channel: grpc.aio.Channel, request_id: str, timeout: float) -> pb.ExplainResponse:
    """Returns what a scheduler knows about a request. `timeout` in seconds. Raises HeadraceError."""
    stub: scheduler_pb2_grpc.SchedulerServiceAsyncStub = scheduler_pb2_grpc.SchedulerServiceStub(channel)
    with translated(STAGE):
        return await stub.Explain(pb.ExplainRequest(request_id=request_id), timeout=timeout)
