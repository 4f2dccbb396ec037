"""The worker's own ledger: what is accepted ends once, and nothing of it stays."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable

import pytest
from google.rpc.status_pb2 import Status

from headrace.domain.deadline import Deadline
from headrace.domain.step_times import StepTimes
from headrace.engine.contract.request import Delta
from headrace.engine.engines.sim import SimConfig, SimEngine
from headrace.errors import InternalError, InvalidRequest, StageFailed, Unavailable, Unsupported, WorkerStopping
from headrace.errors.status import from_status
from headrace.v1.generation_pb2 import (
    FINISH_REASON_LENGTH,
    PRIORITY_CLASS_BATCH,
    PRIORITY_CLASS_INTERACTIVE,
    PRIORITY_CLASS_REALTIME,
    PRIORITY_CLASS_UNSPECIFIED,
    PriorityClass,
    SamplingParams,
)
from headrace.v1.scheduler_pb2 import Generation
from headrace.v1.worker_pb2 import BatchMember, TokenDelta
from headrace.worker.requests.drain import drain
from headrace.worker.requests.outbox import Outbox
from headrace.worker.requests.runtime import Runtime
from headrace.worker.requests.translation import to_assignments, to_frame, to_outcome

pytestmark = pytest.mark.anyio


def member(
    name: str,
    attempt: int = 1,
    tokens: int = 4,
    seconds: float = 30.0,
    prompt: int = 3,
    urgency: "PriorityClass.ValueType" = PRIORITY_CLASS_UNSPECIFIED,
) -> BatchMember:
    generation = Generation(
        request_id=name,
        attempt=attempt,
        model="m",
        prompt_token_ids=[5] * prompt,
        sampling_params=SamplingParams(max_token_count=tokens, temperature=0, ignore_eos=True),
        gateway_id="g",
    )
    built = BatchMember(generation=generation, priority_class=urgency)
    built.remaining_duration.FromMilliseconds(int(seconds * 1000))
    return built


def accept(runtime: Runtime, asked: BatchMember) -> Status:
    """Hands over one request as it comes over the wire."""
    (refusal,) = runtime.accept_batch(to_assignments([asked]), 0)
    return to_outcome(refusal)


class BrokenEngine(SimEngine):
    """Fails the requests that are named, one at a time."""

    def __init__(self, config: SimConfig, broken: set[str]) -> None:
        super().__init__(config)
        self._broken = broken

    def step(self, times: StepTimes | None = None) -> list[Delta]:
        for request_id in list(self._broken):
            self._broken.discard(request_id)
            self.cancel(request_id)
            raise InternalError("the logits are not numbers", details={"request_id": request_id})
        return super().step()


async def start(engine: SimEngine, attach_seconds: float = 5.0) -> Runtime:
    runtime = Runtime(engine, "m", attach_seconds)
    runtime.start(lambda: None, lambda _events: None)
    return runtime


@pytest.fixture
async def runtime() -> AsyncIterator[Runtime]:
    made = await start(SimEngine(SimConfig(max_running_count=4, base_seconds=0.005)))
    yield made
    made.stop()


async def read_until_end(outbox: Outbox, count: int) -> dict[str, list[TokenDelta]]:
    """Reads frames until `count` requests have had their last delta."""
    found: dict[str, list[TokenDelta]] = {}
    ended = 0
    deadline = time.monotonic() + 10
    while ended < count:
        assert time.monotonic() < deadline
        frame = await outbox.next_frame(1.0)
        assert frame is not None
        for delta in to_frame(frame).deltas:
            found.setdefault(delta.request_id, []).append(delta)
            ended += bool(delta.finish_reason) or delta.HasField("error")
    return found


async def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 5
    while not condition():
        assert time.monotonic() < deadline
        await asyncio.sleep(0.002)


async def test_a_batch_runs_and_is_forgotten(runtime: Runtime) -> None:
    outbox = runtime.attach("g")
    assert [accept(runtime, member(name)).code for name in "abc"] == [0, 0, 0]
    assert runtime.credit_count == 1
    found = await read_until_end(outbox, 3)
    for deltas in found.values():
        assert [delta.first_index for delta in deltas] == sorted({delta.first_index for delta in deltas})
        assert sum(len(delta.token_ids) for delta in deltas) == 4
        assert deltas[-1].finish_reason == FINISH_REASON_LENGTH
        assert deltas[-1].timings.HasField("decode_duration")
    assert len(runtime.sessions) == 0
    await until(lambda: runtime.stats.used_block_count == 0)
    assert runtime.credit_count == 4


async def test_more_than_the_credit_is_refused(runtime: Runtime) -> None:
    assert [accept(runtime, member(str(index), tokens=200)).code for index in range(4)] == [0] * 4
    assert accept(runtime, member("one too many")).code != 0
    assert runtime.credit_count == 0


async def test_a_realtime_request_takes_the_place_of_one_of_the_batch_class(runtime: Runtime) -> None:
    outbox = runtime.attach("g")
    for name in "abcd":
        assert accept(runtime, member(name, tokens=30, urgency=PRIORITY_CLASS_BATCH)).code == 0
    await until(lambda: runtime.stats.pausable_count == 4)
    assert accept(runtime, member("interactive", urgency=PRIORITY_CLASS_INTERACTIVE)).code != 0
    accepted = [accept(runtime, member(f"r{index}", urgency=PRIORITY_CLASS_REALTIME)).code == 0 for index in range(5)]
    assert accepted == [True] * 4 + [False]
    found = await read_until_end(outbox, 8)
    assert all(deltas[-1].finish_reason == FINISH_REASON_LENGTH for deltas in found.values())
    assert {name: sum(len(delta.token_ids) for delta in found[name]) for name in "abcd"} == dict.fromkeys("abcd", 30)
    assert runtime.stats.preemption_count >= 4
    assert runtime.sessions.pausable_count == 0
    assert runtime.credit_count == 4


async def test_another_model_is_refused(runtime: Runtime) -> None:
    wrong = member("a")
    wrong.generation.model = "other"
    assert "serves m" in accept(runtime, wrong).message


async def test_a_model_for_text_makes_no_embeddings(runtime: Runtime) -> None:
    wrong = member("a")
    wrong.generation.embeds = True
    refused = from_status(accept(runtime, wrong))
    assert isinstance(refused, Unsupported)
    assert "makes text" in refused.message
    assert len(runtime.sessions) == 0


async def test_a_newer_attempt_replaces_the_older_and_an_older_is_refused(runtime: Runtime) -> None:
    outbox = runtime.attach("g")
    accept(runtime, member("a", attempt=1, tokens=500))
    assert accept(runtime, member("a", attempt=2)).code == 0
    assert accept(runtime, member("a", attempt=1)).code != 0
    assert len(runtime.sessions) == 1
    found = await read_until_end(outbox, 1)
    assert {delta.attempt for delta in found["a"] if delta.finish_reason} == {2}


async def test_cancelling_frees_everything(runtime: Runtime) -> None:
    runtime.attach("g")
    accept(runtime, member("a", tokens=1000))
    await until(lambda: runtime.stats.used_block_count > 0)
    runtime.cancel("a", 1)
    assert len(runtime.sessions) == 0
    await until(lambda: runtime.stats.used_block_count == 0)


async def test_a_deadline_is_an_error_that_names_the_stage(runtime: Runtime) -> None:
    outbox = runtime.attach("g")
    accept(runtime, member("a", tokens=2000, seconds=0.1))
    found = await read_until_end(outbox, 1)
    assert "ran out of time during decode" in found["a"][-1].error.message
    await until(lambda: runtime.stats.used_block_count == 0)


async def test_a_gateway_that_goes_takes_its_requests_along(runtime: Runtime) -> None:
    outbox = runtime.attach("g")
    accept(runtime, member("a", tokens=2000))
    runtime.detach("g", outbox)
    assert len(runtime.sessions) == 0


async def test_a_gateway_that_attaches_again_keeps_its_requests(runtime: Runtime) -> None:
    first = runtime.attach("g")
    second = runtime.attach("g")
    accept(runtime, member("a"))
    runtime.detach("g", first)
    assert len(await read_until_end(second, 1)) == 1


async def test_a_gateway_that_comes_back_is_told_what_was_dropped(runtime: Runtime) -> None:
    outbox = runtime.attach("g")
    accept(runtime, member("a", attempt=2, tokens=2000))
    runtime.detach("g", outbox)
    found = await asyncio.wait_for(read_until_end(runtime.attach("g"), 1), 5)
    assert from_status(found["a"][-1].error).stage == "dispatch"
    assert isinstance(from_status(found["a"][-1].error), StageFailed)


async def test_what_an_older_stream_of_a_gateway_may_have_lost_is_told_to_the_new_one(runtime: Runtime) -> None:
    runtime.attach("g")
    accept(runtime, member("a", tokens=2000))
    found = await asyncio.wait_for(read_until_end(runtime.attach("g"), 1), 5)
    assert isinstance(from_status(found["a"][-1].error), StageFailed)
    assert len(runtime.sessions) == 0


async def test_what_was_told_to_a_stream_that_nobody_reads_is_told_to_whoever_asks(runtime: Runtime) -> None:
    runtime.attach("g")
    accept(runtime, member("a", tokens=2000))
    runtime.attach("g")  # A connection of before a cut of the network, delivered late.
    outbox = runtime.attach("g")
    accept(runtime, member("b", tokens=2000))
    runtime.inquire([(name, 1) for name in "ab"], outbox)
    found = await asyncio.wait_for(read_until_end(outbox, 1), 5)
    assert isinstance(from_status(found["a"][-1].error), StageFailed)
    assert len(runtime.sessions) == 1


async def test_an_earlier_attempt_than_the_one_asked_after_does_not_count_as_held(runtime: Runtime) -> None:
    outbox = runtime.attach("g")
    accept(runtime, member("a", tokens=2000))
    runtime.inquire([("a", 2)], outbox)
    found = await asyncio.wait_for(read_until_end(outbox, 1), 5)
    assert found["a"][-1].attempt == 2


async def test_patience_with_an_absent_gateway_begins_anew_when_it_left() -> None:
    runtime = await start(SimEngine(SimConfig(base_seconds=0.005)), attach_seconds=0.2)
    runtime.detach("g", runtime.attach("g"))
    await asyncio.sleep(0.15)
    accept(runtime, member("a", tokens=2000))
    accepted = time.monotonic()
    await until(lambda: len(runtime.sessions) == 0)
    # Patience from the time at which it left would be over after a twentieth of a second.
    assert time.monotonic() - accepted > 0.1
    runtime.stop()


async def test_a_gateway_that_never_attaches_is_given_up() -> None:
    runtime = await start(SimEngine(SimConfig(base_seconds=0.005)), attach_seconds=0.05)
    accept(runtime, member("a", tokens=2000))
    await until(lambda: len(runtime.sessions) == 0)
    runtime.stop()


async def test_a_request_that_can_never_fit_is_refused(runtime: Runtime) -> None:
    outbox = runtime.attach("g")
    accept(runtime, member("a", prompt=5000))
    found = await read_until_end(outbox, 1)
    assert found["a"][0].HasField("error")
    assert len(runtime.sessions) == 0


async def test_one_broken_request_does_not_harm_the_others() -> None:
    runtime = await start(BrokenEngine(SimConfig(base_seconds=0.002), {"bad#1"}))
    outbox = runtime.attach("g")
    for name in ("good", "bad"):
        accept(runtime, member(name))
    found = await read_until_end(outbox, 2)
    assert found["good"][-1].finish_reason == FINISH_REASON_LENGTH
    assert "not numbers" in found["bad"][-1].error.message
    runtime.stop()


async def test_draining_refuses_the_new_and_ends_the_old(runtime: Runtime) -> None:
    outbox = runtime.attach("g")
    accept(runtime, member("a", tokens=20))
    draining = asyncio.create_task(drain(runtime, 10, Deadline.after(10)))
    await asyncio.sleep(0)
    assert "about to stop" in accept(runtime, member("b")).message
    await read_until_end(outbox, 1)
    await draining
    assert await outbox.next_frame(1.0) is None


async def test_draining_moves_what_does_not_end_in_time(runtime: Runtime) -> None:
    outbox = runtime.attach("g")
    for name in "ab":
        accept(runtime, member(name, tokens=3000))
    await until(lambda: runtime.stats.running_count == 2)
    started = time.monotonic()
    await drain(runtime, 0.1, Deadline.after(10))
    assert 0.1 <= time.monotonic() - started < 5, "it waits neither for the end of the requests nor for the deadline"
    found = await read_until_end(outbox, 2)
    for deltas in found.values():
        assert isinstance(from_status(deltas[-1].error), WorkerStopping)
        known = [token for delta in deltas for token in delta.token_ids]
        assert 0 < len(known) < 3000
    assert len(runtime.sessions) == 0
    assert await outbox.next_frame(1.0) is None
    await until(lambda: runtime.stats.running_count == 0)


async def test_a_slow_reader_gets_fewer_larger_frames(runtime: Runtime) -> None:
    outbox = runtime.attach("g")
    accept(runtime, member("a", tokens=30))
    await until(lambda: len(runtime.sessions) == 0)
    frame = await outbox.next_frame(1.0)
    assert frame is not None
    assert len(frame.deltas) == 30


async def test_an_adapter_that_is_not_here_is_somewhere_else() -> None:
    runtime = await start(SimEngine(SimConfig(adapters=("tuned",))))
    try:
        for adapter, accepted in (("", True), ("tuned", True), ("other", False)):
            asked = member(f"r-{adapter}")
            asked.generation.adapter = adapter
            status = accept(runtime, asked)
            assert (status.code == 0) == accepted
            if not accepted:
                assert isinstance(from_status(status), Unavailable)
    finally:
        runtime.stop()


@pytest.mark.parametrize("field", ["prompt_token_ids", "output_token_ids", "stop_token_ids", "logit_biases"])
async def test_token_ids_outside_of_the_vocabulary_do_not_reach_the_engine(field: str) -> None:
    runtime = Runtime(SimEngine(SimConfig()), "m", 5.0)
    size = runtime.spec.vocabulary_size
    for number, bad in enumerate((-1, size)):
        asked = member(f"r{number}")
        if field == "logit_biases":
            asked.generation.sampling_params.logit_biases[bad] = 1.0
        else:
            params = asked.generation.sampling_params
            getattr(params if field == "stop_token_ids" else asked.generation, field).append(bad)
        refusal = from_status(accept(runtime, asked))
        assert isinstance(refusal, InvalidRequest)
        assert refusal.param == field
    assert len(runtime.sessions) == 0


async def test_a_member_that_cannot_be_read_is_refused_and_the_others_are_not(runtime: Runtime) -> None:
    wrong = member("a")
    wrong.generation.sampling_params.grammar.parameter = "guided_json"
    wrong_refusal, refusal = runtime.accept_batch(to_assignments([wrong, member("b")]), 0)
    assert isinstance(wrong_refusal, InvalidRequest)
    assert (wrong_refusal.param, refusal) == ("guided_json", None)
    assert len(runtime.sessions) == 1
