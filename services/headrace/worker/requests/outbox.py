"""Deltas that wait to be sent to one gateway. A slow reader gets fewer, larger frames, never an endless queue."""

import asyncio

from headrace.v1.worker_pb2 import Frame, TokenDelta


class Outbox:
    """Collects deltas; each `next_frame` takes all that have come. Bounded by the credit of the worker."""

    def __init__(self) -> None:
        self._pending: list[TokenDelta] = []
        self._step = 0
        self._arrived = asyncio.Event()
        self._closed = False

    def put(self, step: int, deltas: list[TokenDelta]) -> None:
        self._step = step
        self._pending.extend(deltas)
        self._arrived.set()

    def note_step(self, step: int) -> None:
        """Remembers the progress, for the sign of life."""
        self._step = step

    def close(self) -> None:
        self._closed = True
        self._arrived.set()

    async def next_frame(self, patience: float) -> Frame | None:
        """The next frame; an empty one after `patience` seconds without deltas; None once closed and empty."""
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
        return Frame(step=self._step, deltas=deltas)
