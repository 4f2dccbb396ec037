"""A hung engine ends its process, a busy machine does not; and nobody hears of a worker that cannot make a token."""

import asyncio
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from headrace.domain.deadline import Deadline
from headrace.domain.step_times import StepTimes
from headrace.engine.contract.request import Delta, EngineRequest, SamplingParams
from headrace.engine.engines.sim import SimConfig, SimEngine
from headrace.engine.pace.step_pace import StepPace
from headrace.errors import HeadraceError, InternalError, Unavailable
from headrace.worker.requests.runtime import Runtime
from headrace.worker.stepping.watchdog import Patience, Watchdog

pytestmark = pytest.mark.anyio
SHORT = Patience(step_seconds=0.3, first_seconds=30.0)
TIMEOUT = 20.0


class HangingEngine(SimEngine):
    """Stays in a step for as long as `released` is not set."""

    def __init__(self, config: SimConfig | None = None) -> None:
        super().__init__(config or SimConfig(base_seconds=0.002))
        self.released = threading.Event()
        self.released.set()

    def step(self, times: StepTimes | None = None) -> list[Delta]:
        self.released.wait(TIMEOUT)
        return super().step()


class RefusingEngine(SimEngine):
    """Fails every step of the request that it has."""

    def step(self, times: StepTimes | None = None) -> list[Delta]:
        self.cancel("canary")
        raise InternalError("the logits are not finite", details={"request_id": "canary"})


class SilentEngine(SimEngine):
    """Ends requests without a token."""

    def step(self, times: StepTimes | None = None) -> list[Delta]:
        super().step()
        return []


class CrashingEngine(SimEngine):
    """An engine that fails in a way that nobody thought of."""

    def step(self, times: StepTimes | None = None) -> list[Delta]:
        raise ZeroDivisionError("division by zero")


@contextmanager
def running(engine: SimEngine) -> Iterator[Runtime]:
    runtime = Runtime(engine, "m", 30.0)
    runtime.start(lambda: None, lambda _events: None)
    try:
        yield runtime
    finally:
        if isinstance(engine, HangingEngine):
            engine.released.set()
        runtime.stop()


def request(name: str, tokens: int) -> EngineRequest:
    return EngineRequest(name, (1, 2, 3), SamplingParams(max_tokens=tokens, ignore_eos=True))


async def until(condition: Callable[[], bool]) -> None:
    deadline = Deadline.after(TIMEOUT)
    while not condition():
        assert not deadline.expired
        await asyncio.sleep(0.005)


async def test_a_hung_engine_is_noticed() -> None:
    engine = HangingEngine()
    reasons: list[str] = []
    with running(engine) as runtime:
        await runtime.prove(TIMEOUT)
        watching = asyncio.create_task(Watchdog(runtime.thread, runtime.spec, SHORT, reasons.append).watch())
        runtime.thread.submit(request("a", 5))
        await until(lambda: runtime.stats.step_count >= 5)
        step_count = runtime.stats.step_count
        engine.released.clear()
        runtime.thread.submit(request("b", 5))
        await asyncio.wait_for(watching, TIMEOUT)
        assert "allowed are 0.3 s" in reasons[0]
        assert runtime.stats.step_count <= step_count + 4, "a step that hangs is no progress"


async def test_an_engine_without_work_is_not_hung() -> None:
    reasons: list[str] = []
    with running(HangingEngine()) as runtime:
        await runtime.prove(TIMEOUT)
        watching = asyncio.create_task(Watchdog(runtime.thread, runtime.spec, SHORT, reasons.append).watch())
        await asyncio.wait({watching}, timeout=1.0)
        watching.cancel()
    assert reasons == []


async def test_steps_may_take_what_they_are_known_to_take() -> None:
    """Ten times the least patience, which is less than 20 times what was measured."""
    reasons: list[str] = []
    patience = Patience(step_seconds=0.02, first_seconds=30.0)
    with running(SimEngine(SimConfig(base_seconds=0.2))) as runtime:
        await runtime.prove(TIMEOUT)
        watching = asyncio.create_task(Watchdog(runtime.thread, runtime.spec, patience, reasons.append).watch())
        runtime.thread.submit(request("a", 4))
        await until(lambda: runtime.stats.output_token_count >= 6)
        watching.cancel()
    assert reasons == []


async def test_the_first_step_may_take_long() -> None:
    engine = HangingEngine()
    reasons: list[str] = []
    engine.released.clear()
    with running(engine) as runtime:
        watching = asyncio.create_task(Watchdog(runtime.thread, runtime.spec, SHORT, reasons.append).watch())
        runtime.thread.submit(request("a", 2))
        await asyncio.wait({watching}, timeout=1.0)
        assert reasons == []
        watching.cancel()


async def test_time_for_which_the_process_stood_still_does_not_count() -> None:
    engine = HangingEngine()
    reasons: list[str] = []
    with running(engine) as runtime:
        await runtime.prove(TIMEOUT)
        watching = asyncio.create_task(Watchdog(runtime.thread, runtime.spec, SHORT, reasons.append).watch())
        engine.released.clear()
        runtime.thread.submit(request("a", 2))
        await until(lambda: runtime.thread.busy is not None)
        await asyncio.sleep(0)
        # As when the process, with both of its threads, gets no turn.
        time.sleep(1.0)  # noqa: ASYNC251
        asyncio.get_running_loop().call_later(0.05, engine.released.set)
        await until(lambda: runtime.thread.busy is None)
        watching.cancel()
    assert reasons == []


@pytest.mark.process
def test_a_process_whose_engine_hangs_ends_and_says_where() -> None:
    script = """
import asyncio, time
from headrace.engine.contract.request import EngineRequest, SamplingParams
from headrace.engine.engines.sim import SimConfig, SimEngine
from headrace.worker.requests.runtime import Runtime
from headrace.worker.stepping.watchdog import Patience, Watchdog, exit_hung

class Engine(SimEngine):
    hangs = False
    def step(self, times=None):
        while self.hangs:
            time.sleep(0.01)
        return super().step()

async def main():
    engine = Engine(SimConfig())
    runtime = Runtime(engine, "m", 30.0)
    runtime.start(lambda: None, lambda _events: None)
    await runtime.prove(20)
    engine.hangs = True
    runtime.thread.submit(EngineRequest("a", (1,), SamplingParams()))
    await Watchdog(runtime.thread, runtime.spec, Patience(0.2, 0.2), exit_hung).watch()

asyncio.run(main())
"""
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=False)
    assert ended.returncode == 70
    assert "exiting because the engine hangs" in ended.stderr
    assert "in step" in ended.stderr


async def test_the_canary_leaves_no_trace() -> None:
    with running(SimEngine(SimConfig(base_seconds=0.001))) as runtime:
        await runtime.prove(TIMEOUT)
        runtime.thread.submit(request("a", 1))
        await until(lambda: runtime.stats.output_token_count == 3)
        stats = runtime.stats
    assert (stats.prefix_hit_token_count, stats.used_block_count, stats.running_count) == (0, 0, 0)
    assert runtime.pace.prefill_rate > 0
    assert runtime.pace.step_seconds > 0


async def test_the_canary_is_not_told_as_cached_blocks() -> None:
    told: list[object] = []
    runtime = Runtime(SimEngine(SimConfig()), "m", 30.0)
    runtime.start(lambda: None, told.append)
    await runtime.prove(TIMEOUT)
    runtime.thread.submit(request("a", 1))
    await until(lambda: runtime.stats.output_token_count == 3)
    runtime.stop()
    assert told == []


@pytest.mark.parametrize(
    ("engine", "reason"), [(RefusingEngine, "not finite"), (SilentEngine, "cannot be"), (CrashingEngine, "division")]
)
async def test_a_model_that_makes_nothing_sound_does_not_start(engine: type[SimEngine], reason: str) -> None:
    with running(engine(SimConfig())) as runtime, pytest.raises(HeadraceError, match=reason) as refused:
        await runtime.prove(TIMEOUT)
    assert "takes no requests" in refused.value.message


async def test_a_model_that_hangs_at_once_does_not_start() -> None:
    engine = HangingEngine()
    engine.released.clear()
    with running(engine) as runtime, pytest.raises(Unavailable, match="made nothing within"):
        await runtime.prove(0.2)


def test_what_a_step_will_take_is_known_once_its_like_was_measured() -> None:
    engine, pace = SimEngine(SimConfig()), StepPace()
    assert pace.predict(0) is None
    assert pace.predict(100) is None
    before = engine.stats()
    engine.add(request("a", 3))
    engine.step()
    read = engine.stats()
    pace.measure_step(before, read, seconds=0.003)
    engine.step()
    pace.measure_step(read, engine.stats(), seconds=0.5)
    assert pace.prefill_rate == pytest.approx(1000)
    assert pace.predict(0) == pytest.approx(0.5)
    assert pace.predict(2000) == pytest.approx(2.5)
