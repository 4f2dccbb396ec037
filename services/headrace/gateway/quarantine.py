"""Finds the request that ends every worker it comes to, among others that were only in its company."""

import asyncio
import contextlib
from collections.abc import AsyncIterator

from headrace.errors import DeadlineExceeded
from headrace.rpc.deadline import Deadline

SUSPECT_LOSSES = 2
"""Workers lost in a row, without a new token in between, after which a request may be what ends them."""


class Quarantine:
    """Place in which suspects run one at a time. One that loses its worker here too is to blame."""

    def __init__(self) -> None:
        self._turn = asyncio.Lock()

    @contextlib.asynccontextmanager
    async def entered(self, deadline: Deadline) -> AsyncIterator[None]:
        """Waits for the turn and keeps it. Raises DeadlineExceeded."""
        try:
            async with asyncio.timeout(deadline.remaining):
                await self._turn.acquire()
        except TimeoutError:
            message = "the deadline passed while requests that lost several workers were tried one at a time"
            raise DeadlineExceeded(message, stage="queue") from None
        try:
            yield
        finally:
            self._turn.release()
