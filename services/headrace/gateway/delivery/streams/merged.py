"""Reads several streams as one, in the order in which their items arrive."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from typing import TypeVar

T = TypeVar("T")
_Item = tuple[T | None, BaseException | None]
"""Item of a stream, or the failure that ended it. Neither: the stream is over."""


def merged(streams: Sequence[AsyncGenerator[T, None]]) -> AsyncGenerator[T, None]:
    """Merges streams into one. The first failure ends them all, as does closing the result."""
    return streams[0] if len(streams) == 1 else _merged(streams)


async def _merged(streams: Sequence[AsyncGenerator[T, None]]) -> AsyncGenerator[T, None]:
    items: asyncio.Queue[_Item[T]] = asyncio.Queue(maxsize=2 * len(streams))
    tasks = [asyncio.create_task(_pump(stream, items)) for stream in streams]
    try:
        open_count = len(streams)
        while open_count:
            item, failure = await items.get()
            if failure is not None:
                raise failure
            if item is None:
                open_count -= 1
            else:
                yield item
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _pump(stream: AsyncGenerator[T, None], items: "asyncio.Queue[_Item[T]]") -> None:
    try:
        async with aclosing(stream):
            async for item in stream:
                await items.put((item, None))
        await items.put((None, None))
    except Exception as error:  # noqa: BLE001 - handed to the reader
        await items.put((None, error))
