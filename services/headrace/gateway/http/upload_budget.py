"""The bytes of all request bodies that are arriving, kept under one bound."""

import contextlib
from collections.abc import Callable, Iterator

from headrace.errors import Overloaded

FREE_BYTES = 16 * 1024
"""Bytes of each body that do not count: nobody keeps others from sending short requests."""
RETRY_SECONDS = 1.0


class UploadBudget:
    """Counts what has arrived of bodies that are not whole yet."""

    def __init__(self, limit: int) -> None:
        self.byte_count = 0
        self._limit = limit

    @contextlib.contextmanager
    def upload(self) -> Iterator[Callable[[int], None]]:
        """Yields what takes the number of bytes of each part of one body as it arrives, and raises Overloaded."""
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
