"""Finds the request that ends every worker it runs on, among others that only shared its batch."""

import asyncio

from headrace.domain.deadline import Deadline
from headrace.errors import DeadlineExceeded

SUSPECT_LOSSES = 2
"""Workers lost in a row, without a new token in between, that make a request a suspect."""


class Quarantine:
    """Runs suspects one at a time, each until its next token. One that loses its worker here too is to blame."""

    def __init__(self) -> None:
        self._turn = asyncio.Lock()

    async def enter(self, deadline: Deadline) -> None:
        """Waits for the turn. Raises DeadlineExceeded."""
        try:
            async with asyncio.timeout(deadline.remaining):
                await self._turn.acquire()
        except TimeoutError:
            message = "the deadline passed while requests that lost several workers were tried one at a time"
            raise DeadlineExceeded(message, stage="queue") from None

    def leave(self) -> None:
        """Gives the turn to the next."""
        self._turn.release()
