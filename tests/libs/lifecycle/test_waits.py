"""Waits end when what they wait for happens, and at their deadline; tasks that are cancelled have ended."""

import asyncio

import pytest

from headrace.lifecycle import cancel_and_wait, wait_at_most

pytestmark = pytest.mark.anyio
PATIENCE = 10.0


async def test_a_wait_ends_with_its_event() -> None:
    event = asyncio.Event()
    asyncio.get_running_loop().call_later(0.01, event.set)
    async with asyncio.timeout(PATIENCE):
        await wait_at_most(event, 2 * PATIENCE)
    assert event.is_set()


async def test_a_wait_ends_at_its_deadline_and_leaves_the_event_alone() -> None:
    event = asyncio.Event()
    async with asyncio.timeout(PATIENCE):
        await wait_at_most(event, 0.01)
    assert not event.is_set()


async def test_a_wait_that_is_cancelled_is_over() -> None:
    waiting = asyncio.create_task(wait_at_most(asyncio.Event(), PATIENCE))
    await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting


async def test_a_cancellation_at_the_moment_of_the_event_is_not_hidden() -> None:
    event = asyncio.Event()
    waiting = asyncio.create_task(wait_at_most(event, PATIENCE))
    await asyncio.sleep(0)
    event.set()
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting


async def test_tasks_have_ended_whatever_they_end_with() -> None:
    cleaned: list[str] = []

    async def clean() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            cleaned.append("clean")

    async def fail() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            raise RuntimeError("broken")

    tasks = [asyncio.create_task(clean()), asyncio.create_task(fail())]
    await asyncio.sleep(0)
    await cancel_and_wait(tasks)
    assert cleaned == ["clean"]
    assert all(task.done() for task in tasks)
    await cancel_and_wait([])
