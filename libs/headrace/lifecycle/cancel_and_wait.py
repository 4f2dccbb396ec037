"""Ends tasks."""

import asyncio
from collections.abc import Iterable
from typing import Any


async def cancel_and_wait(tasks: "Iterable[asyncio.Task[Any]]") -> None:
    """Cancels tasks and returns once all have ended, however they did."""
    ending = list(tasks)
    for task in ending:
        task.cancel()
    await asyncio.gather(*ending, return_exceptions=True)
