"""The loop of one model outlives workers that come and go at the worst moment."""

import asyncio
import time
from collections.abc import Callable, Sequence

import pytest
from google.rpc.status_pb2 import Status

from headrace.engine.block_hash import hash_blocks
from headrace.errors import Overloaded, Unavailable
from headrace.errors.status import to_status
from headrace.rpc.deadline import Deadline
from headrace.scheduler.config import SchedulerSettings
from headrace.scheduler.dispatcher import Dispatcher
from headrace.scheduler.model_queue import Pending
from headrace.scheduler.worker_table import WorkerTable
from headrace.v1.generation_pb2 import AdapterInfo, ModelInfo
from headrace.v1.scheduler_pb2 import Generation, SubmitRequest
from headrace.v1.worker_pb2 import BatchMember, DispatchResponse, WorkerStatus

pytestmark = pytest.mark.anyio


class FakeCache:
    """Does something in the middle of a lookup."""

    def __init__(self, meanwhile: Callable[[], None] = lambda: None) -> None:
        self._meanwhile = meanwhile
        self.asked: list[list[bytes]] = []

    async def lookup_response(self, tenant: str, key: bytes, timeout: float) -> bytes | None:
        return None

    async def store_response(self, tenant: str, key: bytes, value: bytes, timeout: float) -> None: ...

    async def lookup_prefix(self, model: str, block_hashes: Sequence[bytes], timeout: float) -> dict[str, int]:
        self._meanwhile()
        self.asked.append(list(block_hashes))
        return {}


class FakeWorker:
    """Takes everything, after it refused `refusals` batches for want of room."""

    def __init__(self, refusals: int = 0) -> None:
        self._refusals = refusals

    async def dispatch(self, members: Sequence[BatchMember], timeout: float) -> DispatchResponse:
        self._refusals -= 1
        outcome = to_status(Overloaded(stage="dispatch")) if self._refusals >= 0 else Status()
        return DispatchResponse(outcomes=[outcome for _ in members])


def status(worker: str, block_size: int = 2) -> WorkerStatus:
    info = ModelInfo(model="m", block_size=block_size)
    return WorkerStatus(worker_id=worker, epoch=1, version=1, credit_count=4, model_info=info)


def pending(name: str, adapter: str = "") -> Pending:
    generation = Generation(request_id=name, attempt=1, model="m", prompt_token_ids=[1, 2, 3, 4], adapter=adapter)
    placement = asyncio.get_running_loop().create_future()
    return Pending(SubmitRequest(generation=generation), Deadline.after(5), time.monotonic(), placement)


def make(table: WorkerTable, cache: FakeCache, refusals: int = 0, **settings: float) -> Dispatcher:
    made = SchedulerSettings.model_validate({"max_window_seconds": 0, **settings})
    worker = FakeWorker(refusals)
    return Dispatcher("m", made, table, lambda _address: worker, cache)  # type: ignore[arg-type,return-value]


async def test_a_worker_that_leaves_during_the_prefix_lookup_does_not_end_the_loop() -> None:
    table = WorkerTable(3.0)
    for worker in ("w0", "w1"):
        table.observe(status(worker))
    dispatcher = make(table, FakeCache(lambda: table.remove("w0", 1)))
    running = asyncio.create_task(dispatcher.run())
    try:
        for name in ("a", "b"):
            waiting = pending(name)
            dispatcher.submit(waiting)
            assert (await asyncio.wait_for(waiting.placement, 2)).worker_id == "w1"
    finally:
        running.cancel()


@pytest.mark.parametrize(("block_size", "asked"), [(2, True), (0, False)])
async def test_workers_that_keep_no_blocks_are_chosen_without_asking_who_has_any(block_size: int, asked: bool) -> None:
    table = WorkerTable(3.0)
    for worker in ("w0", "w1"):
        table.observe(status(worker, block_size))
    lookups: list[None] = []
    dispatcher = make(table, FakeCache(lambda: lookups.append(None)))
    running = asyncio.create_task(dispatcher.run())
    try:
        waiting = pending("a")
        dispatcher.submit(waiting)
        assert (await asyncio.wait_for(waiting.placement, 2)).worker_id in {"w0", "w1"}
    finally:
        running.cancel()
    assert bool(lookups) == asked


@pytest.mark.alone
async def test_an_idle_time_without_requests_is_not_waited_time() -> None:
    table = WorkerTable(3.0)
    dispatcher = make(table, FakeCache(), no_worker_seconds=0.3)
    running = asyncio.create_task(dispatcher.run())
    try:
        await asyncio.sleep(0.4)
        waiting = pending("a")
        dispatcher.submit(waiting)
        await asyncio.sleep(0.1)
        assert not waiting.placement.done()
        with pytest.raises(Unavailable):
            await asyncio.wait_for(waiting.placement, 2)
    finally:
        running.cancel()


async def test_a_worker_without_room_after_all_is_tried_again() -> None:
    table = WorkerTable(3.0)
    table.observe(status("w0"))
    dispatcher = make(table, FakeCache(), refusals=1)
    running = asyncio.create_task(dispatcher.run())
    try:
        waiting = pending("a")
        dispatcher.submit(waiting)
        assert (await asyncio.wait_for(waiting.placement, 2)).worker_id == "w0"
    finally:
        running.cancel()


async def test_an_adapter_waits_for_a_worker_that_has_it_and_is_refused_where_none_has() -> None:
    table = WorkerTable(3.0)
    table.observe(status("plain"))
    full = status("tuned")
    full.model_info.adapters.append(AdapterInfo(name="a"))
    full.credit_count = 0
    table.observe(full)
    dispatcher = make(table, FakeCache())
    running = asyncio.create_task(dispatcher.run())
    try:
        waiting, lost = pending("r", "a"), pending("s", "b")
        dispatcher.submit(waiting)
        dispatcher.submit(lost)
        with pytest.raises(Unavailable, match="no worker of m has the adapter b"):
            await asyncio.wait_for(lost.placement, 2)
        assert not waiting.placement.done()
        full.credit_count, full.version = 1, 2
        table.observe(full)
        assert (await asyncio.wait_for(waiting.placement, 2)).worker_id == "tuned"
        plain = pending("t")
        dispatcher.submit(plain)
        assert (await asyncio.wait_for(plain.placement, 2)).worker_id == "plain"
    finally:
        running.cancel()


async def test_prefixes_are_looked_up_under_the_adapter() -> None:
    table = WorkerTable(3.0)
    for worker in ("w0", "w1"):
        with_adapter = status(worker)
        with_adapter.model_info.adapters.append(AdapterInfo(name="a"))
        table.observe(with_adapter)
    cache = FakeCache()
    dispatcher = make(table, cache)
    running = asyncio.create_task(dispatcher.run())
    try:
        for adapter in ("", "a"):
            waiting = pending(f"r{adapter}", adapter)
            dispatcher.submit(waiting)
            await asyncio.wait_for(waiting.placement, 2)
    finally:
        running.cancel()
    assert cache.asked == [hash_blocks([1, 2, 3, 4], 2, "", adapter) for adapter in ("", "a")]
    assert not set(cache.asked[0]) & set(cache.asked[1])


async def test_a_sequence_that_lost_its_worker_waits_for_the_next_one_as_long_as_it_may() -> None:
    table = WorkerTable(3.0)
    dispatcher = make(table, FakeCache(), no_worker_seconds=0.1)
    running = asyncio.create_task(dispatcher.run())
    try:
        moved, newcomer = pending("moved"), pending("newcomer")
        moved.request.excluded_worker_ids.append("w0")
        dispatcher.submit(moved)
        dispatcher.submit(newcomer)
        with pytest.raises(Unavailable):
            await asyncio.wait_for(newcomer.placement, 2)
        assert not moved.placement.done()
        table.observe(status("w0"))
        assert (await asyncio.wait_for(moved.placement, 2)).worker_id == "w0"
    finally:
        running.cancel()


async def test_a_worker_that_cannot_be_reached_is_named() -> None:
    class Unreachable(FakeWorker):
        async def dispatch(self, members: Sequence[BatchMember], timeout: float) -> DispatchResponse:
            raise Unavailable("connection refused")

    table = WorkerTable(3.0)
    table.observe(status("w0"))
    dispatcher = make(table, FakeCache())
    dispatcher._client_of = lambda _address: Unreachable()  # type: ignore[assignment,return-value]
    running = asyncio.create_task(dispatcher.run())
    try:
        waiting = pending("a")
        dispatcher.submit(waiting)
        with pytest.raises(Unavailable) as failure:
            await asyncio.wait_for(waiting.placement, 2)
        assert failure.value.details == {"worker": "w0"}
    finally:
        running.cancel()


@pytest.mark.parametrize("failure", [RuntimeError("broken"), asyncio.CancelledError(), None])
async def test_whatever_breaks_a_dispatch_every_caller_is_told(failure: BaseException | None) -> None:
    class Broken(FakeWorker):
        """Fails in a way that nobody foresaw, or answers for one member too few."""

        async def dispatch(self, members: Sequence[BatchMember], timeout: float) -> DispatchResponse:
            if failure is not None:
                raise failure
            return DispatchResponse(outcomes=[Status() for _ in members[1:]])

    table = WorkerTable(3.0)
    table.observe(status("w0"))
    dispatcher = make(table, FakeCache())
    dispatcher._client_of = lambda _address: Broken()  # type: ignore[assignment,return-value]
    both = [pending("a"), pending("b")]
    for waiting in both:
        dispatcher.submit(waiting)
    running = asyncio.create_task(dispatcher.run())
    try:
        outcomes = await asyncio.wait_for(
            asyncio.gather(*(waiting.placement for waiting in both), return_exceptions=True), 2
        )
        assert any(isinstance(outcome, Unavailable) for outcome in outcomes)
        assert table.entries[0].reserved_count == 0
        assert not running.done()
    finally:
        running.cancel()
