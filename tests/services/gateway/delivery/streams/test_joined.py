"""Calls side by side, results in order."""

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial

import pytest

from headrace.errors import Overloaded
from headrace.gateway.delivery.streams.joined import joined

pytestmark = pytest.mark.anyio


async def test_results_are_in_the_order_of_the_calls_whichever_ends_first() -> None:
    last_ended = asyncio.Event()

    async def first() -> str:
        await asyncio.wait_for(last_ended.wait(), 5)
        return "first"

    async def last() -> str:
        last_ended.set()
        return "last"

    assert await joined([first, last], at_once=2) == ["first", "last"]


async def test_no_more_run_at_once_than_allowed() -> None:
    running, most = 0, 0

    async def call(index: int) -> int:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0)
        running -= 1
        return index

    assert await joined([partial(call, index) for index in range(20)], at_once=3) == list(range(20))
    assert most == 3


async def test_the_first_failure_is_raised_as_it_is_and_cancels_the_others() -> None:
    cancelled = asyncio.Event()

    async def waits() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()

    async def fails() -> None:
        raise Overloaded("full")

    calls: list[Callable[[], Awaitable[None]]] = [waits, fails]
    with pytest.raises(Overloaded, match="full"):
        await joined(calls, at_once=2)
    assert cancelled.is_set()


async def test_cancelling_cancels_what_runs() -> None:
    started, cancelled = asyncio.Event(), asyncio.Event()

    async def waits() -> None:
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()

    task = asyncio.create_task(joined([waits], at_once=2))
    await started.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert cancelled.is_set()
