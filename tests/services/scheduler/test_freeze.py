"""Requests that are cancelled at the worst moment never keep the loop of a model from suspending."""

import asyncio
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from types import FrameType

import pytest
from google.rpc.status_pb2 import Status

from headrace.errors import Overloaded
from headrace.errors.status import to_status
from headrace.rpc.deadline import Deadline
from headrace.scheduler.config import SchedulerSettings
from headrace.scheduler.dispatcher import Dispatcher
from headrace.scheduler.model_queue import ModelQueue, Pending
from headrace.scheduler.worker_table import WorkerTable
from headrace.v1.generation_pb2 import PRIORITY_CLASS_BATCH, PRIORITY_CLASS_REALTIME, AdapterInfo, ModelInfo
from headrace.v1.scheduler_pb2 import Generation, SubmitRequest
from headrace.v1.worker_pb2 import BatchMember, DispatchResponse, WorkerStatus

pytestmark = pytest.mark.anyio


class Frozen(Exception):
    """The event loop did not turn for seconds."""


@pytest.fixture(autouse=True)
def alarm() -> Iterator[None]:
    """A loop that never suspends cannot be ended by a timeout of its own; a signal reaches it."""

    def ring(_number: int, _frame: FrameType | None) -> None:
        raise Frozen

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, 5.0)
    yield
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)


class Cache:
    """Does something in the middle of a lookup."""

    def __init__(self, meanwhile: Callable[[], object] = lambda: None) -> None:
        self._meanwhile = meanwhile

    async def lookup_prefix(self, model: str, block_hashes: Sequence[bytes], timeout: float) -> dict[str, int]:
        self._meanwhile()
        return {}


class Worker:
    """Takes everything and notes it, after it did something in the middle and refused for want of room."""

    def __init__(self, meanwhile: Callable[[], object] | None = None) -> None:
        self._meanwhile = meanwhile
        self.taken: list[str] = []

    async def dispatch(self, members: Sequence[BatchMember], timeout: float) -> DispatchResponse:
        outcome = Status()
        if self._meanwhile is not None:
            self._meanwhile()
            self._meanwhile, outcome = None, to_status(Overloaded(stage="dispatch"))
        else:
            self.taken += [member.generation.request_id for member in members]
        return DispatchResponse(outcomes=[outcome for _ in members])


def status(worker: str, adapter: str = "", credit: int = 4) -> WorkerStatus:
    info = ModelInfo(model="m", block_size=2, adapters=[AdapterInfo(name=adapter)] if adapter else [])
    return WorkerStatus(worker_id=worker, epoch=1, version=1, credit_count=credit, model_info=info)


def pending(name: str, adapter: str = "") -> Pending:
    generation = Generation(request_id=name, attempt=1, model="m", prompt_token_ids=[1, 2, 3, 4], adapter=adapter)
    placement = asyncio.get_running_loop().create_future()
    return Pending(SubmitRequest(generation=generation), Deadline.after(5), time.monotonic(), placement)


def make(table: WorkerTable, cache: Cache, worker: Worker) -> Dispatcher:
    settings = SchedulerSettings.model_validate({"max_window_seconds": 0})
    return Dispatcher("m", settings, table, lambda _address: worker, cache)  # type: ignore[arg-type,return-value]


async def serve_one_more(dispatcher: Dispatcher) -> None:
    """A loop that still turns places a request that comes now."""
    following = pending("following")
    dispatcher.submit(following)
    await asyncio.wait_for(following.placement, 2)


async def test_a_placement_cancelled_in_the_turn_in_which_it_was_submitted() -> None:
    table = WorkerTable(3.0)
    table.observe(status("w0"))
    dispatcher = make(table, Cache(), Worker())
    running = asyncio.create_task(dispatcher.run())
    try:
        waiting = pending("a")
        dispatcher.submit(waiting)
        waiting.placement.cancel()
        await asyncio.sleep(0)
        await serve_one_more(dispatcher)
        assert len(dispatcher.queue) == 0
    finally:
        running.cancel()


async def test_a_placement_cancelled_while_prefixes_are_looked_up_is_not_put_back() -> None:
    table = WorkerTable(3.0)
    for name in ("w0", "w1"):
        table.observe(status(name))
    table.observe(status("w2", "tuned", credit=0))
    waiting = pending("a", "tuned")
    worker = Worker()
    dispatcher = make(table, Cache(waiting.placement.cancel), worker)
    running = asyncio.create_task(dispatcher.run())
    try:
        dispatcher.submit(waiting)
        await serve_one_more(dispatcher)
        assert worker.taken == ["following"]
        assert not dispatcher.queue.arrived.is_set()
    finally:
        running.cancel()


async def test_a_placement_cancelled_while_its_worker_refuses_it_is_not_put_back() -> None:
    table = WorkerTable(3.0)
    table.observe(status("w0"))
    waiting = pending("a")
    worker = Worker(waiting.placement.cancel)
    dispatcher = make(table, Cache(), worker)
    running = asyncio.create_task(dispatcher.run())
    try:
        dispatcher.submit(waiting)
        await serve_one_more(dispatcher)
        assert worker.taken == ["following"]
        assert not dispatcher.queue.arrived.is_set()
    finally:
        running.cancel()


async def test_whoever_left_is_not_sent_to_a_worker() -> None:
    table = WorkerTable(3.0)
    for name in ("w0", "w1"):
        table.observe(status(name))
    waiting = pending("a")
    worker = Worker()
    dispatcher = make(table, Cache(waiting.placement.cancel), worker)
    running = asyncio.create_task(dispatcher.run())
    try:
        dispatcher.submit(waiting)
        await serve_one_more(dispatcher)
        assert worker.taken == ["following"]
    finally:
        running.cancel()


async def test_a_queue_of_those_who_left_is_empty_before_the_loop_turns() -> None:
    queue = ModelQueue()
    entries = [pending(name) for name in "abc"]
    for entry, rank in zip(entries, (PRIORITY_CLASS_REALTIME, PRIORITY_CLASS_BATCH, PRIORITY_CLASS_BATCH), strict=True):
        entry.request.priority_class = rank
        queue.add(entry)
        entry.placement.cancel()
    assert queue.take(10, 1000) == []
    assert len(queue) == 0
    assert not queue.arrived.is_set()
    queue.add(entries[0])
    assert len(queue) == 0
    assert not queue.arrived.is_set()
