"""Retries of calls that may succeed the next time, as the platform asks."""

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import TypeVar

from headrace.domain.deadline import Deadline
from headrace.errors import HeadraceError, Overloaded, Unavailable

SHOULD_RETRY = "should_retry"
"""Name, among the details of an error, of the platform's own verdict: true or false."""
FIRST_PAUSE, MAX_PAUSE = 0.5, 8.0
"""Seconds before the first retry, which double with each, where the platform names none."""
T = TypeVar("T")


class Retries:
    """Repeats an attempt up to `most` times, with pauses. Never longer than the deadline allows."""

    def __init__(self, most: int) -> None:
        self._most = most

    async def run(self, attempt: Callable[[], Awaitable[T]], deadline: Deadline) -> T:
        """Returns the result of the first attempt that succeeds. Raises the HeadraceError of the last."""
        number = 0
        while True:
            try:
                return await attempt()
            except HeadraceError as error:
                pause = pause_after(error, number)
                if number >= self._most or pause is None or pause >= deadline.remaining:
                    raise
            await asyncio.sleep(pause)
            number += 1


def pause_after(error: HeadraceError, number: int) -> float | None:
    """Returns the seconds to wait before retry `number`, counted from 0. None: a retry makes no sense."""
    word = error.details.get(SHOULD_RETRY)
    if word == "false":
        return None
    if error.retry_after is not None:
        return error.retry_after
    if word == "true" or isinstance(error, Overloaded | Unavailable):
        # Spread, so that clients which failed together do not come back together.
        return float(min(MAX_PAUSE, FIRST_PAUSE * 2**number)) * random.uniform(0.75, 1.0)  # noqa: S311 - no secret
    return None
