"""Everyone who watches a worker sees its newest status, and a scheduler that lost the lead is refused."""

import asyncio
from collections.abc import AsyncIterator, Callable

import grpc
import pytest

from headrace.domain.deadline import Deadline
from headrace.engine.engines.sim import SimConfig, SimEngine
from headrace.errors import HeadraceError, Unavailable
from headrace.errors.status import from_status
from headrace.rpc.channel import open_channel
from headrace.rpc.server import Server
from headrace.v1 import worker_pb2_grpc
from headrace.v1.generation_pb2 import PRIORITY_CLASS_BATCH, SamplingParams
from headrace.v1.scheduler_pb2 import Generation
from headrace.v1.worker_pb2 import BatchMember, DispatchRequest, WatchRequest, WorkerStatus
from headrace.v1.worker_pb2_grpc import WorkerServiceStub, add_WorkerServiceServicer_to_server
from headrace.worker.requests.runtime import Runtime
from headrace.worker.servicer import WorkerServicer
from headrace.worker.status.device_rates import DeviceRates
from headrace.worker.status.status_board import StatusBoard

pytestmark = pytest.mark.anyio
PATIENCE = 10.0


class RunningWorker:
    """A worker's servicer behind a real port."""

    def __init__(self, config: SimConfig) -> None:
        self.runtime = Runtime(SimEngine(config), "m", attach_seconds=30.0)
        self.board = StatusBoard(self.runtime, "w", 7, "m", DeviceRates(hourly_price=1.5))
        self.drains: list[float] = []
        self.servicer = WorkerServicer(
            self.runtime, self.board, "w", 7, self.drains.append, lambda _model, _is_pinned: None
        )
        self.stub: worker_pb2_grpc.WorkerServiceAsyncStub

    async def watch(self) -> AsyncIterator[WorkerStatus]:
        async for response in self.stub.Watch(WatchRequest(), timeout=PATIENCE):
            yield response.status

    async def dispatch(self, *members: BatchMember, fence: int = 0) -> list[HeadraceError | None]:
        response = await self.stub.Dispatch(DispatchRequest(members=members, fence=fence), timeout=PATIENCE)
        failures = [from_status(outcome) if outcome.code else None for outcome in response.outcomes]
        assert all(failure is None or isinstance(failure, Unavailable) for failure in failures)
        return failures


@pytest.fixture
async def worker() -> AsyncIterator[RunningWorker]:
    made = RunningWorker(SimConfig(max_running_count=4, base_seconds=0.005, prefill_seconds_per_token=1e-5))
    server = Server(lambda to: add_WorkerServiceServicer_to_server(made.servicer, to), ["headrace.v1.WorkerService"])
    address = await server.start("127.0.0.1:0")
    made.runtime.start(made.board.on_change, lambda _events: None)
    async with open_channel(address) as channel:
        made.stub = WorkerServiceStub(channel)
        yield made
    await server.stop(0)
    made.runtime.stop()


def member(name: str, tokens: int = 4, prompt: int = 3) -> BatchMember:
    generation = Generation(
        request_id=name,
        attempt=1,
        model="m",
        prompt_token_ids=[5] * prompt,
        sampling_params=SamplingParams(max_token_count=tokens, temperature=0, ignore_eos=True),
        gateway_id="g",
    )
    built = BatchMember(generation=generation, priority_class=PRIORITY_CLASS_BATCH)
    built.remaining_duration.FromSeconds(60)
    return built


async def until(condition: Callable[[], bool]) -> None:
    deadline = Deadline.after(PATIENCE)
    while not condition():
        assert not deadline.expired
        await asyncio.sleep(0.002)


async def test_an_idle_worker_is_told_of_at_once_and_four_times_a_second(worker: RunningWorker) -> None:
    statuses = worker.watch()
    first = await anext(statuses)
    assert (first.worker_id, first.epoch, first.credit_count, first.hourly_price) == ("w", 7, 4, 1.5)
    before = asyncio.get_running_loop().time()
    versions = [(await anext(statuses)).version for _ in range(4)]
    assert versions == sorted({first.version, *versions})[1:]
    assert asyncio.get_running_loop().time() - before < PATIENCE / 2


async def test_every_watcher_sees_a_change_at_once(worker: RunningWorker) -> None:
    watchers = [worker.watch() for _ in range(3)]
    for statuses in watchers:
        assert (await anext(statuses)).running_count == 0
    assert await worker.dispatch(member("a", tokens=3000)) == [None]
    for statuses in watchers:
        async with asyncio.timeout(PATIENCE):
            async for status in statuses:
                if status.running_count == 1:
                    assert (status.pausable_count, status.credit_count) == (1, 3)
                    break


async def test_a_watcher_that_reads_late_reads_the_newest(worker: RunningWorker) -> None:
    watching = worker.board.watch()
    await anext(watching)
    for name in ("a", "b", "c"):
        await worker.dispatch(member(name, tokens=3000))
    await until(lambda: worker.runtime.stats.running_count == 3)
    assert (await anext(watching)).stats.running_count == 3
    await watching.aclose()


async def test_watches_end_with_the_drain(worker: RunningWorker) -> None:
    statuses = worker.watch()
    await anext(statuses)
    await worker.servicer.drain(5, Deadline.after(5))
    assert [status.draining async for status in statuses][-1]
    assert not worker.board._watchers


async def test_a_watcher_that_goes_leaves_nothing(worker: RunningWorker) -> None:
    call = worker.stub.Watch(WatchRequest(), timeout=PATIENCE)
    await call.read()
    assert len(worker.board._watchers) == 1
    call.cancel()
    await until(lambda: not worker.board._watchers)


async def test_a_scheduler_that_lost_the_lead_is_refused(worker: RunningWorker) -> None:
    assert await worker.dispatch(member("a"), fence=5) == [None]
    assert await worker.dispatch(member("b"), fence=7) == [None]
    refused = await worker.dispatch(member("c"), member("d"), fence=5)
    assert len(refused) == 2
    for failure in refused:
        assert failure is not None
        assert failure.stage == "dispatch"
        assert "newer scheduler leads" in failure.message
    assert len(worker.runtime.sessions) <= 2
    assert await worker.dispatch(member("e"), fence=7) == [None]


async def test_no_fence_claims_no_lead(worker: RunningWorker) -> None:
    assert await worker.dispatch(member("a"), fence=5) == [None]
    assert await worker.dispatch(member("b")) == [None]
    assert await worker.dispatch(member("c"), fence=5) == [None]


async def test_the_pace_is_measured(worker: RunningWorker) -> None:
    assert (worker.board.status().pace.prefill_rate, worker.board.status().pace.step_seconds) == (0, 0)
    await worker.dispatch(member("a", prompt=400, tokens=10))
    await until(lambda: len(worker.runtime.sessions) == 0)
    status = worker.board.status()
    assert 0.005 <= status.pace.step_seconds < 1
    assert 40 < status.pace.prefill_rate <= 400 / (0.005 + 400 * 1e-5)
    assert status.waiting_token_count == 0


async def test_tokens_that_wait_are_counted_from_acceptance_until_computed(worker: RunningWorker) -> None:
    response = await worker.stub.Dispatch(DispatchRequest(members=[member("a", prompt=3000)]), timeout=PATIENCE)
    assert response.status.waiting_token_count == 3000
    await until(lambda: worker.board.status().waiting_token_count == 0)
    assert worker.runtime.stats.prompt_token_count == 3000


def test_the_call_is_part_of_the_service() -> None:
    assert isinstance(WorkerServiceStub(grpc.insecure_channel("127.0.0.1:1")).Watch, grpc.UnaryStreamMultiCallable)
