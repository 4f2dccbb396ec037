"""Bytes of all request bodies that are arriving, kept under one limit."""

import contextlib
from collections.abc import Callable, Iterator

from headrace.errors import Overloaded

FREE_BYTES = 16 * 1024
"""Bytes of each body that do not count, so that nobody can keep others from sending short requests."""
RETRY_SECONDS = 1.0


class UploadBudget:
    """Counts the bytes received of incomplete bodies."""

    def __init__(self, limit: int) -> None:
        self.byte_count = 0
        self._limit = limit

    @contextlib.contextmanager
    def upload(self) -> Iterator[Callable[[int], None]]:
        """Yields a function that takes the size of each part of one body as it arrives, and raises Overloaded."""
        counted = arrived = 0

        def arrive(byte_count: int) -> None:
            nonlocal counted, arrived
            arrived += byte_count
            added = max(0, arrived - FREE_BYTES) - counted
            if self.byte_count + added > self._limit:
                raise Overloaded(
                    f"request bodies with {self._limit} bytes are arriving already: send this one again later",
                    stage="upload",
                    retry_after=RETRY_SECONDS,
                )
            counted += added
            self.byte_count += added

        try:
            yield arrive
        finally:
            self.byte_count -= counted
