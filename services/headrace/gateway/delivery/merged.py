"""Reads several streams as one, in the order in which their items come."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from typing import TypeVar

T = TypeVar("T")
_Item = tuple[int, T | None, BaseException | None]


async def merged(streams: Sequence[AsyncGenerator[T, None]]) -> AsyncGenerator[tuple[int, T], None]:
    """Yields (index of the stream, item). The first failure ends all; so does closing."""
    if len(streams) == 1:
        async with aclosing(streams[0]) as only:
            async for first in only:
                yield 0, first
        return
    items: asyncio.Queue[_Item[T]] = asyncio.Queue(maxsize=2 * len(streams))
    tasks = [asyncio.create_task(_pump(index, stream, items)) for index, stream in enumerate(streams)]
    try:
        open_count = len(streams)
        while open_count:
            index, item, failure = await items.get()
            if failure is not None:
                raise failure
            if item is None:
                open_count -= 1
            else:
                yield index, item
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _pump(index: int, stream: AsyncGenerator[T, None], items: "asyncio.Queue[_Item[T]]") -> None:
    try:
        async with aclosing(stream):
            async for item in stream:
                await items.put((index, item, None))
        await items.put((index, None, None))
    except Exception as error:  # noqa: BLE001 - handed to the reader
        await items.put((index, None, error))
