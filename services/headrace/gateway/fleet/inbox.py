"""The inbox in which the deltas of one attempt of one sequence arrive."""

import asyncio
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager

from headrace.domain.deadline import Deadline
from headrace.errors import DeadlineExceeded, HeadraceError
from headrace.errors.tree import GatewayStopping
from headrace.v1.worker_pb2 import TokenDelta


class Inbox:
    """Filled by the attachments, read by one task."""

    def __init__(self, request_id: str, attempt: int) -> None:
        self.request_id = request_id
        self.attempt = attempt
        self.worker_id: str | None = None
        """Worker that the deltas come from, once the scheduler has named it."""
        self.placing: asyncio.Timeout | None = None
        """Timeout that bounds the wait for a place, while there is none."""
        self.heard = time.monotonic()
        """Time of the last delta, or of the last question to the worker about the request, in monotonic seconds."""
        self.ended = False
        """Whether the last delta was read. After it, the worker has forgotten the request."""
        self._deltas: deque[TokenDelta] = deque()
        self._failure: HeadraceError | None = None
        self._arrived = asyncio.Event()
        self._stage = "prefill"

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
        self.fail(GatewayStopping(stage=self._stage, retry_after=1))
        if self.placing is not None:
            self.placing.reschedule(0)

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

    @contextmanager
    def expiring(self, deadline: Deadline) -> Iterator[None]:
        """Ends the reading with DeadlineExceeded if the block outlasts the deadline."""
        expiry = asyncio.get_running_loop().call_later(deadline.remaining, self._expire)
        try:
            yield
        finally:
            expiry.cancel()

    def _expire(self) -> None:
        self.fail(DeadlineExceeded(f"the deadline passed during {self._stage}", stage=self._stage))
