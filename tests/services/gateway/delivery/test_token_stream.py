"""Each token exactly once and in order, with workers that are lost, repeat themselves or leave gaps."""

import asyncio
import contextlib
import time
from dataclasses import replace
from typing import Any

import pytest
from google.protobuf.duration_pb2 import Duration

from headrace.domain.deadline import Deadline
from headrace.domain.ids import RequestId, SequenceId
from headrace.errors import (
    DeadlineExceeded,
    HeadraceError,
    InternalError,
    Overloaded,
    QueueTimeout,
    StageFailed,
    Unavailable,
    WorkerStopping,
)
from headrace.errors.status import to_status
from headrace.errors.tree import GatewayStopping, WorkerLost
from headrace.gateway.access.tenant import PUBLIC
from headrace.gateway.delivery import token_stream
from headrace.gateway.delivery.token_stream import TokenStream
from headrace.gateway.fleet.inboxes.inboxes import Inboxes
from headrace.gateway.fleet.model_facts import ModelFacts
from headrace.gateway.fleet.quarantine import Quarantine
from headrace.gateway.job.sampling import Sampling
from headrace.gateway.job.sequence_request import SequenceRequest
from headrace.gateway.request.envelope import Envelope
from headrace.v1.generation_pb2 import (
    FINISH_REASON_LENGTH,
    FINISH_REASON_STOP,
    FINISH_REASON_UNSPECIFIED,
    PRIORITY_CLASS_INTERACTIVE,
    Embedding,
    TokenLogprob,
    WorkerTimings,
)
from headrace.v1.scheduler_pb2 import Place, Settlement, Submission
from headrace.v1.worker_pb2 import TokenDelta

pytestmark = pytest.mark.anyio


class FakeAttachment:
    worker_id = "worker-0"
    alive = True


class FakeFleet:
    """A fleet of one worker; notes what was cancelled."""

    def __init__(self) -> None:
        self.inboxes = Inboxes()
        self.quarantine = Quarantine()
        self.cancelled: list[tuple[str, int]] = []

    async def attachment_for(self, place: Place, since: float, timeout: float) -> FakeAttachment:
        return FakeAttachment()

    def cancel(self, worker_id: str, request_id: str, attempt: int) -> None:
        self.cancelled.append((request_id, attempt))


TIMINGS = WorkerTimings(queue_duration=Duration(nanos=10_000_000), prefill_duration=Duration(nanos=30_000_000))


class FakeScheduler:
    """Plays one script per attempt: deltas, or an error that the worker or the scheduler ends with."""

    def __init__(self, fleet: FakeFleet, *scripts: list[Any]) -> None:
        self.fleet = fleet
        self.scripts = list(scripts)
        self.submits: list[Submission] = []
        self.settled: list[Settlement] = []

    def settle(self, settlement: Settlement) -> None:
        self.settled.append(settlement)

    async def place(self, request: Submission, deadline: Deadline) -> Place:
        self.submits.append(request)
        script = self.scripts.pop(0)
        if isinstance(script, HeadraceError):
            raise script
        generation = request.generation
        for step in script:
            probe = TokenDelta(request_id=generation.request_id, attempt=generation.attempt)
            inbox = self.fleet.inboxes.find(probe)
            assert inbox is not None
            if isinstance(step, HeadraceError):
                inbox.fail(step)
            else:
                first, ids, reason = step
                inbox.put(TokenDelta(first_index=first, token_ids=ids, finish_reason=reason, timings=TIMINGS))
        return Place(worker_id="worker-0", worker_epoch=1)


def request(seconds: float = 5.0) -> SequenceRequest:
    envelope = Envelope(RequestId("r"), time.monotonic(), Deadline.after(seconds), PUBLIC, "", use_cache=False)
    sampling = Sampling(max_token_count=4)
    return SequenceRequest(SequenceId("r-0"), envelope, ModelFacts("m"), [1, 2], sampling, PRIORITY_CLASS_INTERACTIVE)


async def read(*scripts: Any, seconds: float = 5.0, attempts: int = 3) -> tuple[list[int], FakeScheduler, FakeFleet]:
    fleet = FakeFleet()
    scheduler = FakeScheduler(fleet, *scripts)
    stream = TokenStream(request(seconds), "gateway", scheduler, fleet, attempts)  # type: ignore[arg-type]
    tokens = [token async for delta in stream.deltas() for token in delta.token_ids]
    assert len(fleet.inboxes) == 0
    return tokens, scheduler, fleet


LOST = WorkerLost(stage="decode")


async def test_undisturbed() -> None:
    tokens, _, fleet = await read([(0, [10], 0), (1, [11, 12], 0), (3, [13], FINISH_REASON_LENGTH)])
    assert tokens == [10, 11, 12, 13]
    assert fleet.cancelled == []


async def test_a_lost_worker_is_replaced_and_gets_what_was_received() -> None:
    tokens, scheduler, _ = await read([(0, [10], 0), (1, [11], 0), LOST], [(2, [12, 13], FINISH_REASON_LENGTH)])
    assert tokens == [10, 11, 12, 13]
    second = scheduler.submits[1]
    assert list(second.generation.output_token_ids) == [10, 11]
    assert second.generation.attempt == 2
    assert list(second.excluded_worker_ids) == ["worker-0"]


async def test_the_time_to_the_first_token_is_told_unless_another_worker_gave_it() -> None:
    _, scheduler, _ = await read([(0, [10, 11], FINISH_REASON_LENGTH)])
    assert [used.first_token_duration.ToMilliseconds() for used in scheduler.settled] == [40]
    _, scheduler, _ = await read([LOST], [(0, [10, 11], FINISH_REASON_LENGTH)])
    assert [used.HasField("first_token_duration") for used in scheduler.settled] == [False]


async def test_leaving_a_worker_that_stops_is_no_attempt() -> None:
    """Upgrades of many workers may move a long stream any number of times; and none of them is to blame."""
    stops = [[(number, [10 + number], 0), WorkerStopping(stage="decode")] for number in range(8)]
    tokens, scheduler, _ = await read(*stops, [(8, [18], FINISH_REASON_LENGTH)], attempts=1)
    assert tokens == list(range(10, 19))
    assert [one.left_place.worker_id for one in scheduler.submits] == ["", *["worker-0"] * 8]
    assert [list(one.generation.output_token_ids) for one in scheduler.submits] == [tokens[:n] for n in range(9)]


async def test_workers_that_computed_for_long_may_be_lost_any_number_of_times(monkeypatch: pytest.MonkeyPatch) -> None:
    losses = [[(number, [10 + number], 0), LOST] for number in range(6)]
    end = [(6, [16], FINISH_REASON_LENGTH)]
    with pytest.raises(WorkerLost):
        await read(*losses, end, attempts=5)
    monkeypatch.setattr(token_stream, "STEADY_SECONDS", -1.0)
    tokens, _, _ = await read(*losses, end, attempts=5)
    assert tokens == list(range(10, 17))
    with pytest.raises((InternalError, WorkerLost)):
        await read(losses[0], *[[LOST]] * 6, attempts=5)


async def test_after_a_loss_no_blocks_are_fetched_from_the_worker_that_was_left_before() -> None:
    _, scheduler, _ = await read(
        [WorkerStopping(stage="decode")], [(0, [10], 0), LOST], [(1, [11], FINISH_REASON_LENGTH)]
    )
    assert [one.HasField("left_place") for one in scheduler.submits] == [False, True, False]


async def test_an_embedding_comes_from_the_worker_that_takes_over() -> None:
    fleet = FakeFleet()

    class Moving(FakeScheduler):
        """Loses the first worker before it said anything."""

        async def place(self, request: Submission, deadline: Deadline) -> Place:
            self.submits.append(request)
            attempt = len(self.submits)
            inbox = fleet.inboxes.find(TokenDelta(request_id=SequenceId("r-0"), attempt=attempt))
            assert inbox is not None
            if attempt == 1:
                inbox.fail(LOST)
            else:
                inbox.put(TokenDelta(finish_reason=FINISH_REASON_STOP, embedding=Embedding(values=[0.5, -2.0])))
            return Place(worker_id="worker-0", worker_epoch=1)

    scheduler = Moving(fleet)
    stream = TokenStream(replace(request(), embeds=True), "gateway", scheduler, fleet, 3)  # type: ignore[arg-type]
    (delta,) = [delta async for delta in stream.deltas()]
    assert list(delta.embedding.values) == [0.5, -2.0]
    assert [submit.generation.embeds for submit in scheduler.submits] == [True, True]
    assert list(scheduler.submits[1].excluded_worker_ids) == ["worker-0"]
    assert fleet.cancelled == [("r-0", 1)]
    assert len(fleet.inboxes) == 0


async def test_repeated_tokens_are_dropped_by_number() -> None:
    tokens, _, _ = await read([(0, [10, 11], 0), (1, [11, 12], 0), (0, [10], 0), (3, [13], FINISH_REASON_LENGTH)])
    assert tokens == [10, 11, 12, 13]


async def test_a_gap_is_a_loss_not_a_hole() -> None:
    tokens, scheduler, fleet = await read([(0, [10], 0), (2, [12], 0)], [(1, [11, 12, 13], FINISH_REASON_LENGTH)])
    assert tokens == [10, 11, 12, 13]
    assert fleet.cancelled == [("r-0", 1)]
    assert len(scheduler.submits) == 2


async def test_an_absent_scheduler_is_waited_for() -> None:
    away = Unavailable("connection refused", stage="schedule")
    tokens, _, _ = await read(away, away, away, away, [(0, [10], FINISH_REASON_LENGTH)], attempts=2)
    assert tokens == [10]


async def test_a_full_queue_ends_a_newcomer_and_never_a_sequence_that_lost_its_worker() -> None:
    full = Overloaded("the queue is full", stage="queue", retry_after=0.01)
    with pytest.raises(Overloaded):
        await read(full)
    tokens, scheduler, _ = await read([(0, [10], 0), LOST], full, full, [(1, [11], FINISH_REASON_LENGTH)], attempts=2)
    assert tokens == [10, 11]
    assert [submit.generation.attempt for submit in scheduler.submits] == [1, 2, 3, 4]


async def test_a_queue_that_stays_full_ends_with_the_deadline() -> None:
    full = [Overloaded("the queue is full", stage="queue", retry_after=0.05)] * 100
    with pytest.raises(DeadlineExceeded) as failure:
        await read([(0, [10], 0), LOST], *full, seconds=0.5)
    assert not isinstance(failure.value, QueueTimeout)


async def test_every_worker_that_failed_a_sequence_is_named() -> None:
    not_taken = Unavailable("w1 did not take it", stage="dispatch", details={"worker": "w1"})
    _, scheduler, _ = await read([(0, [10], 0), LOST], not_taken, [(1, [11], FINISH_REASON_LENGTH)])
    assert [list(submit.excluded_worker_ids) for submit in scheduler.submits] == [
        [],
        ["worker-0"],
        ["worker-0", "w1"],
    ]


async def test_workers_that_keep_dying_end_in_an_error() -> None:
    with pytest.raises(StageFailed):
        await read([(0, [10], 0), LOST], [(1, [11], 0), LOST], [(2, [12], 0), LOST], attempts=3)


async def test_an_error_of_the_engine_is_the_clients() -> None:
    fleet = FakeFleet()

    class Failing(FakeScheduler):
        async def place(self, request: Submission, deadline: Deadline) -> Place:
            inbox = fleet.inboxes.find(TokenDelta(request_id=SequenceId("r-0"), attempt=1))
            assert inbox is not None
            inbox.put(TokenDelta(error=to_status(InternalError("the logits are not numbers", stage="decode"))))
            return Place(worker_id="worker-0", worker_epoch=1)

    stream = TokenStream(request(), "gateway", Failing(fleet), fleet, 3)  # type: ignore[arg-type]
    with pytest.raises(InternalError, match="not numbers"):
        async for _ in stream.deltas():
            pass


async def test_the_deadline_ends_a_stream_that_stands_still() -> None:
    with pytest.raises(DeadlineExceeded) as failure:
        await read([(0, [10], 0)], seconds=0.05)
    assert failure.value.stage == "decode"


async def test_leaving_early_cancels_at_the_worker() -> None:
    fleet = FakeFleet()
    scheduler = FakeScheduler(fleet, [(0, [10], 0), (1, [11], 0)])
    stream = TokenStream(request(), "gateway", scheduler, fleet, 3)  # type: ignore[arg-type]
    deltas = stream.deltas()
    await anext(deltas)
    await deltas.aclose()
    assert fleet.cancelled == [("r-0", 1)]
    assert len(fleet.inboxes) == 0


async def test_cancelling_while_queued_leaves_nothing() -> None:
    fleet = FakeFleet()

    submitted = asyncio.Event()

    class Stuck(FakeScheduler):
        async def place(self, request: Submission, deadline: Deadline) -> Place:
            submitted.set()
            await asyncio.Event().wait()
            raise AssertionError

    async def consume() -> None:
        stream = TokenStream(request(), "gateway", Stuck(fleet), fleet, 3)  # type: ignore[arg-type]
        async for _ in stream.deltas():
            pass

    task = asyncio.create_task(consume())
    await submitted.wait()
    assert len(fleet.inboxes) == 1
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert len(fleet.inboxes) == 0


async def test_a_worker_that_cannot_be_attached_to_is_excluded_too() -> None:
    fleet = FakeFleet()
    reachable = fleet.attachment_for
    answers = iter([WorkerLost(stage="dispatch"), None])

    async def attachment_for(place: Place, since: float, timeout: float) -> FakeAttachment:
        if (failure := next(answers)) is not None:
            raise failure
        return await reachable(place, since, timeout)

    fleet.attachment_for = attachment_for  # type: ignore[method-assign]
    scheduler = FakeScheduler(fleet, [], [(0, [10], FINISH_REASON_LENGTH)])
    stream = TokenStream(request(), "gateway", scheduler, fleet, 3)  # type: ignore[arg-type]
    assert [list(delta.token_ids) async for delta in stream.deltas()] == [[10]]
    assert list(scheduler.submits[1].excluded_worker_ids) == ["worker-0"]


async def test_the_prompt_is_scored_once_whoever_takes_over() -> None:
    fleet = FakeFleet()

    class Scoring(FakeScheduler):
        async def place(self, request: Submission, deadline: Deadline) -> Place:
            attempt = request.generation.attempt
            inbox = fleet.inboxes.find(TokenDelta(request_id=SequenceId("r-0"), attempt=attempt))
            assert inbox is not None
            reason = FINISH_REASON_LENGTH if attempt == 2 else FINISH_REASON_UNSPECIFIED
            scores = [TokenLogprob(), TokenLogprob()]
            inbox.put(
                TokenDelta(
                    first_index=attempt - 1, token_ids=[9 + attempt], prompt_logprobs=scores, finish_reason=reason
                )
            )
            if attempt == 1:
                inbox.fail(LOST)
            return Place(worker_id="worker-0", worker_epoch=1)

    stream = TokenStream(request(), "gateway", Scoring(fleet), fleet, 3)  # type: ignore[arg-type]
    assert [len(delta.prompt_logprobs) async for delta in stream.deltas()] == [2, 0]


async def test_a_deadline_before_the_first_token_names_the_prefill() -> None:
    with pytest.raises(DeadlineExceeded) as failure:
        await read([], seconds=0.05)
    assert failure.value.stage == "prefill"


async def test_a_request_that_was_running_does_not_end_as_queued() -> None:
    fleet = FakeFleet()
    scheduler = FakeScheduler(fleet, [(0, [10], 0), LOST])
    stream = TokenStream(request(0.05), "gateway", scheduler, fleet, 3)  # type: ignore[arg-type]
    deltas = stream.deltas()
    await anext(deltas)
    fleet_inbox = fleet.inboxes.of_worker("worker-0")[0]
    time.sleep(0.06)  # noqa: ASYNC251 - the loop must not see the deadline before the loss
    fleet_inbox.fail(LOST)
    with pytest.raises(DeadlineExceeded) as failure:
        await anext(deltas)
    assert not isinstance(failure.value, QueueTimeout)


async def test_a_gateway_that_stops_ends_what_runs_and_what_waits_with_an_error() -> None:
    fleet = FakeFleet()
    submitted = asyncio.Event()

    class Stuck(FakeScheduler):
        async def place(self, request: Submission, deadline: Deadline) -> Place:
            submitted.set()
            await asyncio.Event().wait()
            raise AssertionError

    async def consume(scheduler: FakeScheduler, name: str) -> list[int]:
        named = replace(request(), request_id=SequenceId(name))
        stream = TokenStream(named, "gateway", scheduler, fleet, 3)  # type: ignore[arg-type]
        return [token async for delta in stream.deltas() for token in delta.token_ids]

    schedulers = {"waits": Stuck(fleet), "runs": FakeScheduler(fleet, [(0, [10], 0)])}
    tasks = [asyncio.create_task(consume(scheduler, name)) for name, scheduler in schedulers.items()]
    await submitted.wait()
    await asyncio.sleep(0.01)
    fleet.inboxes.stop()
    outcomes = await asyncio.wait_for(asyncio.gather(*tasks, return_exceptions=True), 2)
    assert [type(outcome) for outcome in outcomes] == [GatewayStopping, GatewayStopping]
    with pytest.raises(GatewayStopping):
        await consume(FakeScheduler(fleet), "late")
    assert len(fleet.inboxes) == 0


async def test_a_request_that_ends_three_workers_in_a_row_is_refused_by_name() -> None:
    with pytest.raises(InternalError, match="request r-0, the last of them alone"):
        await read([(0, [10], 0), LOST], [LOST], [LOST], attempts=9)


async def test_a_request_that_goes_on_between_losses_is_not_to_blame() -> None:
    tokens, *_ = await read(
        [LOST], [(0, [10], 0), LOST], [LOST], [(1, [11], 0), LOST], [(2, [12], FINISH_REASON_LENGTH)], attempts=9
    )
    assert tokens == [10, 11, 12]


async def test_suspects_run_one_at_a_time() -> None:
    fleet = FakeFleet()
    running: list[str] = []

    class Slow(FakeScheduler):
        """Notes who runs beside whom once suspected."""

        async def place(self, request: Submission, deadline: Deadline) -> Place:
            suspected = request.generation.attempt == 3
            if suspected:
                running.append(request.generation.request_id)
                await asyncio.sleep(0.02)
                assert len(running) == 1
                running.pop()
            return await super().place(request, deadline)

    async def tokens(name: str) -> list[int]:
        scheduler = Slow(fleet, [LOST], [LOST], [(0, [10], FINISH_REASON_LENGTH)])
        stream = TokenStream(replace(request(), request_id=SequenceId(name)), "g", scheduler, fleet, 9)  # type: ignore[arg-type]
        return [token async for delta in stream.deltas() for token in delta.token_ids]

    assert await asyncio.gather(*(tokens(name) for name in "abcd")) == [[10]] * 4


async def test_a_suspect_that_is_not_its_turn_in_time_says_so() -> None:
    fleet = FakeFleet()
    scheduler = FakeScheduler(fleet, [LOST], [LOST], [(0, [10], FINISH_REASON_LENGTH)])
    stream = TokenStream(request(0.2), "g", scheduler, fleet, 9)  # type: ignore[arg-type]
    await fleet.quarantine.enter(Deadline.after(1))
    with pytest.raises(DeadlineExceeded, match="one at a time"):
        async for _ in stream.deltas():
            pass


async def test_a_suspect_keeps_others_waiting_only_until_its_next_token() -> None:
    fleet = FakeFleet()
    scheduler = FakeScheduler(fleet, [LOST], [LOST], [(0, [10], 0), (1, [11], FINISH_REASON_LENGTH)])
    stream = TokenStream(request(), "g", scheduler, fleet, 9)  # type: ignore[arg-type]
    async with contextlib.aclosing(stream.deltas()) as deltas:
        assert list((await anext(deltas)).token_ids) == [10]
        await fleet.quarantine.enter(Deadline.after(0.1))
        fleet.quarantine.leave()


@pytest.mark.parametrize(("known", "kind"), [([], QueueTimeout), ([(0, [10], 0), LOST], DeadlineExceeded)])
async def test_a_deadline_that_passes_in_the_queue_ends_the_wait(known: list[Any], kind: type[Exception]) -> None:
    """No scheduler says so: the wait ends all the same, and tells a request that was running from a new one."""
    fleet = FakeFleet()

    class Silent(FakeScheduler):
        async def place(self, request: Submission, deadline: Deadline) -> Place:
            if self.scripts:
                return await super().place(request, deadline)
            await asyncio.Event().wait()
            raise AssertionError

    scheduler = Silent(fleet, *([known] if known else []))
    stream = TokenStream(request(0.2), "gateway", scheduler, fleet, 3)  # type: ignore[arg-type]
    with pytest.raises(DeadlineExceeded) as failure:
        async for _ in stream.deltas():
            pass
    assert type(failure.value) is kind
    assert failure.value.stage == "queue"
    assert len(fleet.inboxes) == 0


async def test_tokens_of_an_earlier_request_come_first_and_go_to_the_worker() -> None:
    fleet = FakeFleet()
    scheduler = FakeScheduler(fleet, [(1, [11, 12], 0), (3, [13], FINISH_REASON_LENGTH)])
    known = TokenDelta(token_ids=[10, 11])
    stream = TokenStream(request(), "gateway", scheduler, fleet, 3, known)  # type: ignore[arg-type]
    deltas = [list(delta.token_ids) async for delta in stream.deltas()]
    assert deltas == [[10, 11], [12], [13]]
    assert list(scheduler.submits[0].generation.output_token_ids) == [10, 11]
    assert [used.output_token_count for used in scheduler.settled] == [2]


class SilentScheduler(FakeScheduler):
    """Takes requests, and never says where they go."""

    def __init__(self, fleet: FakeFleet) -> None:
        super().__init__(fleet)
        self.asked = asyncio.Event()

    async def place(self, request: Submission, deadline: Deadline) -> Place:
        self.asked.set()
        await asyncio.get_running_loop().create_future()
        raise AssertionError("it was cancelled")


async def test_a_request_that_is_given_up_while_a_scheduler_has_it_is_settled() -> None:
    """A worker may have it by then: the scheduler remembers it until it hears what it used."""
    fleet = FakeFleet()
    scheduler = SilentScheduler(fleet)
    stream = TokenStream(request(), "gateway", scheduler, fleet, 3)  # type: ignore[arg-type]
    reading = asyncio.create_task(anext(stream.deltas()))
    await scheduler.asked.wait()
    reading.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await reading
    assert [(used.request_id, used.output_token_count) for used in scheduler.settled] == [("r-0", 0)]
