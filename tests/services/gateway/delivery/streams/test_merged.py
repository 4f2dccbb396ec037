"""Several streams are read as one: all items, the first failure, and nothing left over."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing

import pytest

from headrace.errors import Overloaded
from headrace.gateway.delivery.streams.merged import merged

pytestmark = pytest.mark.anyio


class Source:
    """Yields some items, then fails, stands still or ends."""

    def __init__(self, *items: int, failure: Exception | None = None, stands_still: bool = False) -> None:
        self._items = items
        self._failure = failure
        self._stands_still = stands_still
        self.closed = False

    async def stream(self) -> AsyncGenerator[int, None]:
        try:
            for item in self._items:
                await asyncio.sleep(0)
                yield item
            if self._failure is not None:
                raise self._failure
            if self._stands_still:
                await asyncio.Event().wait()
        finally:
            self.closed = True


async def test_every_item_of_every_stream_comes_in_its_order() -> None:
    sources = [Source(1, 2, 3), Source(), Source(10, 20)]
    items = [item async for item in merged([source.stream() for source in sources])]
    assert [item for item in items if item < 10] == [1, 2, 3]
    assert [item for item in items if item >= 10] == [10, 20]


async def test_one_stream_is_read_as_it_is() -> None:
    stream = Source(1).stream()
    assert merged([stream]) is stream
    assert [item async for item in stream] == [1]


async def test_the_first_failure_ends_all() -> None:
    sources = [Source(1, stands_still=True), Source(2, failure=Overloaded("full"))]
    with pytest.raises(Overloaded):
        async for _ in merged([source.stream() for source in sources]):
            pass
    assert all(source.closed for source in sources)


async def test_closing_closes_all() -> None:
    sources = [Source(1, stands_still=True), Source(2, stands_still=True)]
    async with aclosing(merged([source.stream() for source in sources])) as items:
        assert {await anext(items), await anext(items)} == {1, 2}
    assert all(source.closed for source in sources)
