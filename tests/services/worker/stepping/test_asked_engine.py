"""Functions that others ask for run on the engine's thread, and end nothing when they fail."""

import asyncio
import threading
from collections.abc import AsyncIterator

import pytest

from headrace.engine.engines.sim import SimConfig, SimEngine
from headrace.worker.stepping.engine_thread import EngineThread, StepReport

pytestmark = pytest.mark.anyio
SECONDS = 10.0


@pytest.fixture
async def thread() -> AsyncIterator[EngineThread]:
    reports: list[StepReport] = []
    crashes: list[BaseException] = []
    made = EngineThread(SimEngine(SimConfig()), reports.append, crashes.append)
    made.start()
    yield made
    made.stop(SECONDS)
    await asyncio.sleep(0)
    assert crashes == []


async def test_a_result_comes_back(thread: EngineThread) -> None:
    assert await thread.call(lambda: threading.current_thread().name, SECONDS) == "engine"


async def test_an_error_comes_back_and_the_engine_goes_on(thread: EngineThread) -> None:
    with pytest.raises(ZeroDivisionError):
        await thread.call(lambda: 1 // 0, SECONDS)
    assert await thread.call(lambda: 7, SECONDS) == 7


async def test_what_nobody_waits_for_any_more_is_not_run(thread: EngineThread) -> None:
    holding, held, ran = threading.Event(), threading.Event(), threading.Event()

    def hold() -> bool:
        held.set()
        return holding.wait(SECONDS)

    first = thread.ask(hold)
    assert await asyncio.to_thread(held.wait, SECONDS)
    with pytest.raises(TimeoutError):
        await thread.call(ran.set, 0.01)
    holding.set()
    assert await asyncio.wrap_future(first)
    await thread.call(lambda: None, SECONDS)
    assert not ran.is_set()
