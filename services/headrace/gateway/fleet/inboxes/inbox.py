"""The inbox in which the deltas of one attempt of one sequence arrive."""

import asyncio
import time
from collections import deque
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager

from headrace.domain.deadline import Deadline
from headrace.errors import DeadlineExceeded, HeadraceError, QueueTimeout
from headrace.errors.tree import GatewayStopping
from headrace.v1.worker_pb2 import TokenDelta

ANSWER_SECONDS = 0.25
"""Seconds after a deadline by which a scheduler has reported that it passed."""


class Inbox:
    """Filled by the attachments, read by one task."""

    def __init__(self, request_id: str, attempt: int, models: Sequence[str] = ()) -> None:
        """`models`: names of the model that answers, and of the one that it is an adapter of."""
        self.request_id = request_id
        self.attempt = attempt
        self.models = models
        self.worker_id: str | None = None
        """Worker that the deltas come from, once the scheduler has named it."""
        self.heard = time.monotonic()
        """Time of the last delta, or of the last question to the worker about the request, in monotonic seconds."""
        self.ended = False
        """Whether the last delta was read. After it, the worker has forgotten the request."""
        self._deltas: deque[TokenDelta] = deque()
        self._failure: HeadraceError | None = None
        self._arrived = asyncio.Event()
        self._stage = "prefill"
        self._placing: asyncio.Timeout | None = None
        """Timeout of the wait for a place, while there is none."""

    def put(self, delta: TokenDelta) -> None:
        self._stage = "decode"
        self.heard = time.monotonic()
        self._deltas.append(delta)
        self._arrived.set()

    def fail(self, error: HeadraceError) -> None:
        """Ends the reading with an error, after the deltas that have arrived."""
        self._failure = error
        self._arrived.set()

    def stop(self) -> None:
        """Ends the request, wherever it is, because the gateway stops."""
        self._end(GatewayStopping(stage=self._stage if self._placing is None else "queue", retry_after=1))

    def give_up(self, error: HeadraceError) -> None:
        """Ends the request with an error if it waits for a place."""
        if self._placing is not None:
            self._end(error)

    async def take(self) -> TokenDelta | None:
        """Waits for the next delta and returns it; None after the last. Raises WorkerLost, or DeadlineExceeded."""
        while not self.ended:
            if self._deltas:
                delta = self._deltas.popleft()
                self.ended = bool(delta.finish_reason) or delta.HasField("error")
                return delta
            if self._failure is not None:
                raise self._failure
            await self._arrived.wait()
            self._arrived.clear()
        return None

    @asynccontextmanager
    async def placing(self) -> AsyncIterator[None]:
        """Runs its body, which waits for a place, until the request is ended. Raises what ended it."""
        try:
            async with asyncio.timeout(None) as self._placing:
                yield
        except TimeoutError:
            if self._failure is None:
                raise
            raise self._failure from None
        finally:
            self._placing = None

    @contextmanager
    def expiring(self, deadline: Deadline) -> Iterator[None]:
        """Ends the request if the block outlasts the deadline: one that waits for a place with QueueTimeout, a little
        later, when no scheduler has said so, and one that has a place with DeadlineExceeded."""
        loop = asyncio.get_running_loop()
        expiries = [
            loop.call_later(deadline.remaining, self._expire),
            loop.call_later(deadline.remaining + ANSWER_SECONDS, self._expire_late),
        ]
        try:
            yield
        finally:
            for expiry in expiries:
                expiry.cancel()

    def _expire(self) -> None:
        if self._placing is None:
            self.fail(DeadlineExceeded(f"the request ran out of time during {self._stage}", stage=self._stage))

    def _expire_late(self) -> None:
        if self._placing is None:
            self._expire()
        else:
            self._end(QueueTimeout(stage="queue"))

    def _end(self, error: HeadraceError) -> None:
        """Ends the request, whether it waits for a place or for tokens."""
        self.fail(error)
        if self._placing is not None:
            self._placing.reschedule(0)
