"""Queue of deltas for one gateway. A slow reader gets fewer, larger frames, never an endless queue."""

import asyncio

from headrace.worker.requests.frame import Frame, SessionDelta


class Outbox:
    """Collects deltas; each `next_frame` takes all that have come. Bounded by the credit of the worker."""

    def __init__(self) -> None:
        self._pending: list[SessionDelta] = []
        self._step = 0
        self._arrived = asyncio.Event()
        self._closed = False

    def put(self, step: int, deltas: list[SessionDelta]) -> None:
        """Appends the results of step number `step`, in order."""
        self._step = step
        self._pending.extend(deltas)
        self._arrived.set()

    def note_step(self, step: int) -> None:
        """Notes the progress, which the next frame tells even if it is empty."""
        self._step = step

    def close(self) -> None:
        """Ends the stream after the deltas that still wait."""
        self._closed = True
        self._arrived.set()

    async def next_frame(self, patience: float) -> Frame | None:
        """Takes all deltas, once there are some. Returns an empty frame after `patience` seconds without any, and None
        once the outbox is closed and empty."""
        # A timer that sets the event is much cheaper than wait_for, which makes a task per call.
        timer = asyncio.get_running_loop().call_later(patience, self._arrived.set)
        try:
            await self._arrived.wait()
        finally:
            timer.cancel()
        self._arrived.clear()
        if self._closed and not self._pending:
            return None
        if self._closed:
            self._arrived.set()
        deltas, self._pending = self._pending, []
        return Frame(self._step, deltas)
