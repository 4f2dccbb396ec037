"""Runs several calls side by side and puts their results together in order."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

T = TypeVar("T")
Call = Callable[[], Awaitable[T]]


async def joined(calls: Sequence[Call[T]], at_once: int) -> list[T]:
    """Returns one result per call, in their order. The first failure cancels the others and is raised."""
    results: dict[int, T] = {}
    waiting = iter(enumerate(calls))

    async def work() -> None:
        for index, call in waiting:
            results[index] = await call()

    try:
        async with asyncio.TaskGroup() as group:
            for _ in range(min(at_once, len(calls))):
                group.create_task(work())
    except BaseExceptionGroup as failures:
        raise failures.exceptions[0] from None
    return [results[index] for index in range(len(calls))]
