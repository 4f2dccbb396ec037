"""Bound of a block in which a request is answered."""

import asyncio
import contextlib
from collections.abc import AsyncIterator

from headrace.domain.deadline import Deadline
from headrace.errors import DeadlineExceeded

PARTING_SECONDS = 1.0
"""Seconds after its deadline in which a request may still write why it ended."""


@contextlib.asynccontextmanager
async def ending_at(deadline: Deadline, doing: str) -> AsyncIterator[None]:
    """Runs its body until shortly after the deadline. Raises DeadlineExceeded, whose message ends with `doing`, for one
    that outlasts it because a stage overlooks the deadline or a client does not read."""
    try:
        async with asyncio.timeout(deadline.remaining + PARTING_SECONDS):
            yield
    except TimeoutError:
        raise DeadlineExceeded(f"the deadline passed while {doing}", stage="deliver") from None
