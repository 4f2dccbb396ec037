"""Bytes of all request bodies that are arriving, kept under one limit."""

import contextlib
from collections.abc import Callable, Iterator

from headrace.errors import Overloaded

FREE_BYTES = 16 * 1024
"""Bytes of each body that do not count, so that short requests can always be sent."""
RETRY_SECONDS = 1.0


class UploadBudget:
    """Counts the bytes received of incomplete bodies, over HTTP and WebSockets."""

    def __init__(self, limit: int) -> None:
        self.byte_count = 0
        self.limit = limit

    @contextlib.contextmanager
    def upload(self) -> Iterator[Callable[[int], None]]:
        """Yields a function that takes the size of each part of one body as it arrives, and raises Overloaded."""
        upload = Upload(self)
        try:
            yield upload.arrive
        finally:
            upload.end()


class Upload:
    """One body that arrives."""

    def __init__(self, budget: UploadBudget) -> None:
        self._budget = budget
        self._counted = 0
        self._arrived = 0

    def arrive(self, byte_count: int) -> None:
        """Counts a part. Raises Overloaded where there is no room for it."""
        self._arrived += byte_count
        added = max(0, self._arrived - FREE_BYTES) - self._counted
        if self._budget.byte_count + added > self._budget.limit:
            raise Overloaded(
                f"request bodies with {self._budget.limit} bytes are arriving already: send this one again later",
                stage="upload",
                retry_after=RETRY_SECONDS,
            )
        self._counted += added
        self._budget.byte_count += added

    def end(self) -> None:
        """Forgets the body, which is whole or given up. Another may follow."""
        self._budget.byte_count -= self._counted
        self._counted = self._arrived = 0
