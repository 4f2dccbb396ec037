"""The stream of a gateway: one answer to each submission, a sign of life, and nothing left behind."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Sequence
from typing import Any

import pytest
import uvloop
from google.rpc.status_pb2 import Status
from prometheus_client import REGISTRY

from headrace.bus.memory_bus import MemoryBus
from headrace.errors import InvalidRequest, Overloaded, Unavailable
from headrace.errors.status import from_status, to_status
from headrace.kv.held_prefix import HeldPrefix
from headrace.scheduler.core import events
from headrace.scheduler.core.core import SchedulingCore
from headrace.scheduler.core.explanation import told
from headrace.scheduler.core.fleet.worker import WorkerReport
from headrace.scheduler.core.journal import Journal
from headrace.scheduler.core.policy import Policy
from headrace.scheduler.leases import Leases
from headrace.scheduler.prefixes import Prefixes
from headrace.scheduler.scheduler import Scheduler
from headrace.scheduler.servicer import SchedulerServicer
from headrace.v1.scheduler_pb2 import (
    Generation,
    ScheduleCommand,
    ScheduleEvent,
    ScheduleRequest,
    Settlement,
    Submission,
    Withdrawal,
)
from headrace.v1.worker_pb2 import BatchMember, DispatchResponse

pytestmark = pytest.mark.anyio
ERROR = "headrace_first_token_prediction_error"


class PlayedWorker:
    """Answers dispatches by a script: outcomes, or an exception."""

    def __init__(self, *script: Status | BaseException) -> None:
        self._script = list(script)
        self.members: list[BatchMember] = []
        self.fences: list[int] = []

    async def dispatch(self, members: Sequence[BatchMember], timeout: float, fence: int = 0) -> DispatchResponse:
        self.members += members
        self.fences.append(fence)
        outcome = self._script.pop(0) if self._script else Status()
        if isinstance(outcome, BaseException):
            raise outcome
        return DispatchResponse(outcomes=[outcome for _ in members])


class NoCache:
    async def lookup_prefix(self, model: str, block_hashes: Sequence[bytes], timeout: float) -> dict[str, HeldPrefix]:
        raise Unavailable("the cache is away")


class Gateway:
    """One stream to a scheduler with the given workers."""

    def __init__(self, worker: PlayedWorker, *, policy: Policy | None = None) -> None:
        played: Any = worker
        cache: Any = NoCache()
        bus = MemoryBus()
        self.doubted: list[str] = []
        self.scheduler = Scheduler(SchedulingCore(policy or Policy()), Journal(), lambda _address: played, 1.0)
        self.scheduler.on_doubt = self.doubted.append
        leases = Leases(bus, self.scheduler, "s0")
        self.scheduler.fence_of = leases.fence
        self._servicer = SchedulerServicer(self.scheduler, leases, Prefixes(cache), "s0")
        self._commands: asyncio.Queue[ScheduleCommand | None] = asyncio.Queue()
        self._answers: Any = None
        self._told: deque[ScheduleEvent] = deque()

    def report(self, name: str = "w0", credit: int = 4, version: int = 1) -> None:
        report = WorkerReport(name, 1, version, "m", credit, address=name, vocabulary_size=100, block_size=2)
        self.scheduler.feed(events.WorkerReported(report, answers=True))

    def submit(self, name: str = "r", attempt: int = 1, token_id: int = 1, seconds: float = 5.0, **fields: Any) -> None:
        generation = Generation(request_id=name, attempt=attempt, model="m", prompt_token_ids=[token_id, 2, 3])
        submission = Submission(generation=generation, **fields)
        submission.remaining_duration.FromNanoseconds(int(seconds * 1e9))
        self._commands.put_nowait(ScheduleCommand(submission=submission))

    def withdraw(self, name: str, attempt: int = 1) -> None:
        withdrawal = Withdrawal(request_id=name, attempt=attempt, model="m")
        self._commands.put_nowait(ScheduleCommand(withdrawal=withdrawal))

    def settle(self, name: str, first_token_milliseconds: int) -> None:
        used = Settlement(request_id=name, model="m", output_token_count=3)
        used.first_token_duration.FromMilliseconds(first_token_milliseconds)
        self._commands.put_nowait(ScheduleCommand(settlement=used))

    async def answer(self) -> ScheduleEvent:
        """The next answer that is no sign of life."""
        if self._answers is None:
            context: Any = None
            self._answers = self._servicer.Schedule(self._outgoing(), context)
        async with asyncio.timeout(5):
            while not self._told:
                response = await anext(self._answers)
                self._told.extend(event for event in response.events if event.WhichOneof("event") != "sign")
        return self._told.popleft()

    async def close(self) -> None:
        self._commands.put_nowait(None)
        if self._answers is not None:
            await self._answers.aclose()
        await self.scheduler.close()

    async def _outgoing(self) -> AsyncIterator[ScheduleRequest]:
        while (command := await self._commands.get()) is not None:
            yield ScheduleRequest(commands=[command])


async def test_a_submission_is_placed_under_the_lease() -> None:
    worker = PlayedWorker()
    gateway = Gateway(worker)
    gateway.report()
    gateway.submit("a")
    placement = (await gateway.answer()).placement
    assert (placement.request_id, placement.attempt, placement.place.worker_id) == ("a", 1, "w0")
    assert worker.fences == [1]
    assert 4 < worker.members[0].remaining_duration.ToTimedelta().total_seconds() <= 5
    await gateway.close()


async def test_two_workers_without_a_cache_place_too() -> None:
    gateway = Gateway(PlayedWorker())
    for name in ("w0", "w1"):
        gateway.report(name)
    gateway.submit("a")
    assert (await gateway.answer()).WhichOneof("event") == "placement"
    await gateway.close()


async def test_what_a_worker_has_no_room_for_waits_for_room() -> None:
    gateway = Gateway(PlayedWorker(to_status(Overloaded(stage="dispatch"))))
    gateway.report()
    gateway.submit("a")
    assert (await gateway.answer()).placement.request_id == "a"
    await gateway.close()


@pytest.mark.parametrize("failure", [Unavailable("gone"), RuntimeError("broken"), asyncio.CancelledError()])
async def test_whatever_breaks_a_dispatch_the_gateway_is_told_which_worker_it_was(failure: BaseException) -> None:
    gateway = Gateway(PlayedWorker(failure))
    gateway.report()
    gateway.submit("a")
    error = from_status((await gateway.answer()).refusal.error)
    assert isinstance(error, Unavailable)
    assert error.details == {"worker": "w0"}
    assert not gateway.scheduler.core.desk("m").fleet.workers["w0"].sent
    await gateway.close()


async def test_a_token_id_that_is_none_is_refused() -> None:
    gateway = Gateway(PlayedWorker())
    gateway.report()
    for token_id in (-1, 100):
        gateway.submit("a", token_id=token_id)
        assert isinstance(from_status((await gateway.answer()).refusal.error), InvalidRequest)
    await gateway.close()


async def test_a_full_queue_says_when_to_come_back_and_why() -> None:
    gateway = Gateway(PlayedWorker(), policy=Policy(max_waiting_count=1))
    gateway.report(credit=0)
    gateway.submit("first")
    gateway.submit("second")
    refusal = (await gateway.answer()).refusal
    error = from_status(refusal.error)
    assert (refusal.request_id, type(error)) == ("second", Overloaded)
    assert error.retry_after is not None
    assert error.retry_after > 0
    assert error.details["reason"] == "queue_full"
    await gateway.close()


async def test_a_withdrawal_and_the_end_of_the_stream_leave_nothing_behind() -> None:
    gateway = Gateway(PlayedWorker())
    gateway.report(credit=0)
    queue = gateway.scheduler.core.desk("m").queue
    gateway.submit("a")
    gateway.submit("b")
    gateway.withdraw("a")
    answering = asyncio.create_task(gateway.answer())
    async with asyncio.timeout(5):
        while [ticket.request_id for ticket in queue] != ["b"]:  # noqa: ASYNC110 - the queue tells nobody
            await asyncio.sleep(0)
    answering.cancel()
    await asyncio.gather(answering, return_exceptions=True)
    await gateway.close()
    async with asyncio.timeout(5):
        while len(queue):  # noqa: ASYNC110 - the queue tells nobody
            await asyncio.sleep(0)


async def test_a_deadline_that_passes_in_the_queue_is_answered() -> None:
    gateway = Gateway(PlayedWorker())
    gateway.report(credit=0)
    gateway.submit("a", seconds=0.05)
    refusal = (await gateway.answer()).refusal
    assert type(from_status(refusal.error)).__name__ == "QueueTimeout"
    await gateway.close()


async def test_the_journal_tells_why() -> None:
    gateway = Gateway(PlayedWorker())
    for name in ("w0", "w1"):
        gateway.report(name)
    gateway.submit("find.me-0")
    await gateway.answer()
    entries = gateway.scheduler.journal.about("find")
    lines = [line for entry in entries for line in told(entry, "find", gateway.scheduler.clock())]
    assert [line.text.split(":")[0].partition(" ")[2].split()[0] for line in lines] == ["submitted", "sent", "accepted"]
    assert {candidate.worker_id for candidate in lines[1].candidates} == {"w0", "w1"}
    assert gateway.scheduler.journal.about("other") == []
    await gateway.close()


def compared_count() -> float:
    """Predictions that were compared in this process so far."""
    return REGISTRY.get_sample_value(f"{ERROR}_count", {"model": "m"}) or 0.0


async def test_predicted_first_tokens_are_compared_with_those_that_came() -> None:
    gateway, before = Gateway(PlayedWorker()), compared_count()
    gateway.report("w0")
    gateway.submit("find.me-0")
    await gateway.answer()
    gateway.settle("find.me-0", first_token_milliseconds=250)
    gateway.submit("other")
    await gateway.answer()
    lines = [line for entry in gateway.scheduler.journal.about("find") for line in told(entry, "find", 0.0)]
    assert "had its first token 0.250 s after its dispatch" in lines[-1].text
    assert compared_count() == before + 1
    await gateway.close()


async def test_a_core_that_fails_ends_the_scheduler() -> None:
    """Decisions that it made and did not carry out would be waited for for ever."""
    gateway = Gateway(PlayedWorker())
    running = asyncio.create_task(gateway.scheduler.keep_ticking())
    await asyncio.sleep(0)

    def broken(event: events.Event, now: float) -> list[Any]:
        raise RuntimeError("broken")

    gateway.scheduler.core.handle = broken  # type: ignore[method-assign]
    with pytest.raises(RuntimeError, match="broken"):
        gateway.report()
    with pytest.raises(RuntimeError, match="broken"):
        await asyncio.wait_for(running, 5)
    await gateway.close()


def test_a_time_to_wake_that_has_passed_is_no_trouble_in_any_event_loop() -> None:
    """uvloop makes no timer of what is due already."""

    async def wake() -> None:
        gateway = Gateway(PlayedWorker())
        scheduler = gateway.scheduler
        ticks: list[events.Event] = []
        scheduler.feed = ticks.append  # type: ignore[assignment, method-assign]
        now = scheduler.clock()
        for wake_time in (now - 1, now + 0.01, now - 2, now + 100):
            scheduler._wake_at(wake_time, now)
        async with asyncio.timeout(5):
            while not ticks:  # noqa: ASYNC110 - it is a timer that is waited for
                await asyncio.sleep(0.001)
        scheduler._wake_at(now + 0.01, now)
        async with asyncio.timeout(5):
            while len(ticks) < 2:  # noqa: ASYNC110 - it is a timer that is waited for
                await asyncio.sleep(0.001)
        await gateway.close()

    uvloop.run(wake())
    asyncio.run(wake())
