"""A step is given the times of those before. Memory that runs out in one ends neither the process nor, where smaller
steps help, a request."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from tests.libs.engine.engine_running import engine_config, request, run

from headrace.demo_model import CHECKPOINT
from headrace.domain.step_times import StepTimes
from headrace.engine.contract.engine import Engine
from headrace.engine.contract.request import Delta
from headrace.engine.engines.sim import SimConfig, SimEngine
from headrace.engine.engines.text_engine import TextEngine
from headrace.engine.loading.load_text_engine import load_text_engine
from headrace.engine.pace.step_time_fit import MIN_STEPS
from headrace.errors import Overloaded
from headrace.worker.stepping.engine_thread import EngineThread, StepReport

pytestmark = pytest.mark.anyio
TIMEOUT = 60.0
PROMPTS = [range(300, 300 + length) for length in (5, 90, 40)]


def load() -> TextEngine:
    return load_text_engine(CHECKPOINT, engine_config(block_count=64, max_step_token_count=64))


class Outcomes:
    """Takes in reports of an engine's thread."""

    def __init__(self) -> None:
        self.tokens: dict[str, list[int]] = {}
        self.refusals: dict[str, Exception] = {}
        self.crash: BaseException | None = None
        self._ended: set[str] = set()
        self._changed = asyncio.Event()

    def on_report(self, report: StepReport) -> None:
        for delta in report.deltas:
            self.tokens.setdefault(delta.request_id, []).extend(delta.token_ids)
            self._ended |= {delta.request_id} if delta.finish_reason else set()
        self.refusals |= dict(report.refusals)
        self._changed.set()

    def on_crash(self, error: BaseException) -> None:
        self.crash = error
        self._changed.set()

    async def wait(self, count: int) -> None:
        """Waits until so many requests have ended, or the engine has."""
        async with asyncio.timeout(TIMEOUT):
            while len(self._ended) + len(self.refusals) < count and self.crash is None:
                await self._changed.wait()
                self._changed.clear()


@asynccontextmanager
async def running(engine: Engine) -> AsyncIterator[tuple[EngineThread, Outcomes]]:
    outcomes = Outcomes()
    thread = EngineThread(engine, outcomes.on_report, outcomes.on_crash)
    thread.start()
    try:
        yield thread, outcomes
    finally:
        thread.stop(TIMEOUT)


def fail(engine: TextEngine, is_short: Callable[[int], bool], monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes the model's steps raise MemoryError. `is_short` is asked for each with its number."""
    runner: Any = engine._runner
    original, numbers = runner.run, iter(range(1_000_000))

    def compute(plan: Any) -> Any:
        if is_short(next(numbers)):
            raise MemoryError
        return original(plan)

    monkeypatch.setattr(runner, "run", compute)


async def test_a_hundred_times_without_memory_change_no_token(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = [request(str(index), prompt, max_tokens=70, temperature=0) for index, prompt in enumerate(PROMPTS)]
    whole = load()
    expected = run(whole, *asked)
    whole.close()
    engine = load()
    # Between two steps that fail, two go well: enough for a token, since what was computed is computed again.
    fail(engine, lambda number: number % 3 == 0 and number < 300, monkeypatch)
    async with running(engine) as (thread, outcomes):
        for each in asked:
            thread.submit(each)
        await outcomes.wait(len(asked))
        assert outcomes.crash is None
        assert thread.out_of_memory_count == 100
    assert (outcomes.tokens, outcomes.refusals) == (expected, {})


async def test_where_smaller_steps_do_not_help_the_requests_are_refused_and_the_next_is_served(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    engine = load()
    shortage = [True]
    fail(engine, lambda _: shortage[0], monkeypatch)
    async with running(engine) as (thread, outcomes):
        for index, prompt in enumerate(PROMPTS):
            thread.submit(request(str(index), prompt, max_tokens=4))
        await outcomes.wait(len(PROMPTS))
        assert outcomes.crash is None
        assert set(outcomes.refusals) == {"0", "1", "2"}
        assert {type(error) for error in outcomes.refusals.values()} == {Overloaded}
        shortage[0] = False
        thread.submit(request("next", PROMPTS[0], max_tokens=4, ignore_eos=True))
        await outcomes.wait(len(PROMPTS) + 1)
        assert len(outcomes.tokens["next"]) == 4
        engine.check_invariants()


async def test_an_engine_that_cannot_wake_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = load()
    fail(engine, lambda _: True, monkeypatch)

    def wake() -> None:
        raise MemoryError

    monkeypatch.setattr(engine, "wake", wake)
    async with running(engine) as (thread, outcomes):
        thread.submit(request("0", PROMPTS[0], max_tokens=4))
        await outcomes.wait(1)
        assert isinstance(outcomes.crash, MemoryError)


async def test_another_error_is_none_of_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = load()
    runner: Any = engine._runner

    def compute(plan: Any) -> Any:
        raise ArithmeticError

    monkeypatch.setattr(runner, "run", compute)
    async with running(engine) as (thread, outcomes):
        thread.submit(request("0", PROMPTS[0], max_tokens=4))
        await outcomes.wait(1)
        assert isinstance(outcomes.crash, ArithmeticError)
        assert thread.out_of_memory_count == 0


async def test_each_step_is_given_the_measured_times_of_those_before() -> None:
    given: list[StepTimes | None] = []

    class Noting(SimEngine):
        def step(self, times: StepTimes | None = None) -> list[Delta]:
            given.append(times)
            return super().step(times)

    async with running(Noting(SimConfig(base_seconds=0.001))) as (thread, outcomes):
        thread.submit(request("r", (1, 2, 3), max_tokens=40, ignore_eos=True))
        await outcomes.wait(1)
    assert given[:MIN_STEPS] == [None] * MIN_STEPS
    assert all(times is not None and times.base_seconds > 0 for times in given[MIN_STEPS:40])
