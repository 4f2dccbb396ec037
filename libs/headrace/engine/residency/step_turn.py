"""Turn of models that share one device: a step at a time, first come, first served."""

import contextlib
import threading
from collections import deque
from collections.abc import Iterator


class StepTurn:
    """Fair among threads, unlike a lock, which the one that just let go of it tends to get again."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._line: deque[object] = deque()

    def __len__(self) -> int:
        """Number of threads that have the turn or wait for it."""
        return len(self._line)

    @contextlib.contextmanager
    def taken(self, timeout: float) -> Iterator[bool]:
        """Yields whether it is the caller's turn, for which it waits at most `timeout` seconds."""
        ticket = object()
        with self._changed:
            self._line.append(ticket)
            is_ours = self._changed.wait_for(lambda: self._line[0] is ticket, timeout)
        try:
            yield is_ours
        finally:
            with self._changed:
                self._line.remove(ticket)
                self._changed.notify_all()
