"""Work that waits for the disk, away from the event loop."""

import asyncio
import contextlib
import errno
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractContextManager
from functools import partial
from typing import ParamSpec, TypeVar

from headrace.errors import StorageFull

P = ParamSpec("P")
T = TypeVar("T")
_FULL = frozenset({errno.ENOSPC, errno.EDQUOT})


async def on_disk(work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Runs `work` in a thread and returns its result. Raises StorageFull where the disk takes no more. A caller that is
    cancelled waits for its end all the same, so that nothing is still being written when the next operation starts."""
    working = asyncio.create_task(asyncio.to_thread(_checked, partial(work, *args, **kwargs)))
    try:
        return await asyncio.shield(working)
    except asyncio.CancelledError:
        await asyncio.wait({working})
        raise


@contextlib.asynccontextmanager
async def held_on_disk(opened: Callable[[], AbstractContextManager[T]]) -> AsyncIterator[T]:
    """Yields what a context holds that waits for the disk at its begin and end. A caller that is cancelled while it
    begins leaves nothing open."""
    held = contextlib.ExitStack()
    try:
        yield await on_disk(lambda: held.enter_context(opened()))
    except BaseException:
        await on_disk(held.__exit__, *sys.exc_info())
        raise
    await on_disk(held.close)


def _checked(work: Callable[[], T]) -> T:
    try:
        return work()
    except OSError as error:
        if error.errno in _FULL and not isinstance(error, StorageFull):
            raise StorageFull from error
        raise
