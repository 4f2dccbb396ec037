"""A gateway is ready while it can answer: with a tokenizer and a worker, whatever else is away."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from headrace.gateway.fleet.platform_health import PlatformHealth

pytestmark = pytest.mark.anyio
KINDS = ("tokenizer", "scheduler", "cache")


class FixedFleet:
    """A fleet with so many workers."""

    def __init__(self, count: int, keeps_models: bool) -> None:
        self.attached_count = count
        self.keeps_models = keeps_models

    def models(self) -> set[str]:
        return {"m"} if self.attached_count else set()


class NoBusLink:
    """A connection to NATS that is away."""

    connected = False
    connected_at = 0.0


def saying(answer: bool) -> Callable[[], Awaitable[bool]]:
    async def ask() -> bool:
        return answer

    return ask


async def health_with(*serving: str, workers: int = 1, keeps_models: bool = False) -> PlatformHealth:
    """The health once each kind has been asked, of which some serve."""
    fleet: Any = FixedFleet(workers, keeps_models)
    health = PlatformHealth({kind: [saying(False), saying(kind in serving)] for kind in KINDS}, fleet, NoBusLink())
    watching = asyncio.create_task(health.watch())
    expected = {kind: _word(kind in serving) for kind in KINDS} | {"nats": "not connected"}
    async with asyncio.timeout(5):
        while health.report()["services"] != expected:  # noqa: ASYNC110 - it can only be asked
            await asyncio.sleep(0)
    watching.cancel()
    return health


def _word(is_serving: bool) -> str:
    return "ready" if is_serving else "not ready"


async def test_a_tokenizer_and_a_worker_are_enough() -> None:
    health = await health_with("tokenizer")
    assert health.ready
    assert health.report()["status"] == "ready"
    assert health.report()["workers_ready"] == 1


@pytest.mark.parametrize(("serving", "workers"), [(("scheduler", "cache"), 1), (KINDS, 0)])
async def test_without_either_nothing_is_answered(serving: tuple[str, ...], workers: int) -> None:
    assert not (await health_with(*serving, workers=workers)).ready


@pytest.mark.parametrize(("serving", "ready"), [(KINDS, True), (("tokenizer", "cache"), False)])
async def test_a_worker_that_is_started_when_one_is_wanted_is_enough(serving: tuple[str, ...], ready: bool) -> None:
    assert (await health_with(*serving, workers=0, keeps_models=True)).ready is ready


async def test_a_gateway_that_stops_takes_no_more() -> None:
    health = await health_with(*KINDS)
    health.stopping = True
    assert not health.ready
    assert health.report()["status"] == "stopping"


async def test_a_slow_answer_is_not_waited_for_and_not_cancelled() -> None:
    """Each call has its own deadline. A cancelled one would leave memory behind in grpcio."""
    answered, ended = asyncio.Event(), []

    async def late() -> bool:
        try:
            await answered.wait()
        finally:
            ended.append(answered.is_set())
        return False

    fleet: Any = FixedFleet(1, keeps_models=False)
    health = PlatformHealth({"tokenizer": [late, saying(True)]}, fleet, NoBusLink())
    watching = asyncio.create_task(health.watch())
    async with asyncio.timeout(5):
        while not health.ready:  # noqa: ASYNC110 - it can only be asked
            await asyncio.sleep(0)
    answered.set()
    await asyncio.sleep(0)
    assert ended == [True]
    watching.cancel()


async def test_nothing_is_asked_any_more_when_watching_ends() -> None:
    cancelled = asyncio.Event()

    async def hanging() -> bool:
        try:
            await asyncio.sleep(60)
        finally:
            cancelled.set()
        return True

    fleet: Any = FixedFleet(1, keeps_models=False)
    watching = asyncio.create_task(PlatformHealth({"cache": [hanging]}, fleet, NoBusLink()).watch())
    await asyncio.sleep(0.01)
    watching.cancel()
    await asyncio.wait_for(cancelled.wait(), 5)
