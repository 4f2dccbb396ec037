"""Waits with an end."""

import asyncio
import contextlib


async def wait_at_most(event: asyncio.Event, seconds: float) -> None:
    """Returns once the event is set, and after `seconds` at the latest."""
    if event.is_set():
        return
    with contextlib.suppress(TimeoutError):
        # Unlike wait_for, a timeout needs no extra task.
        async with asyncio.timeout(seconds):
            await event.wait()
