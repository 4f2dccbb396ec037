"""Bytes of all request bodies that are arriving, kept under one limit."""

from headrace.errors import Overloaded

FREE_BYTES = 16 * 1024
"""Bytes of each body that do not count, so that short requests can always be sent."""
RETRY_SECONDS = 1.0


class UploadBudget:
    """Counts the bytes received of incomplete bodies, over HTTP and WebSockets."""

    def __init__(self, limit: int) -> None:
        self.byte_count = 0
        self._limit = limit

    def take(self, byte_count: int) -> None:
        """Counts bytes. Raises Overloaded where there is no room for them."""
        if self.byte_count + byte_count > self._limit:
            raise Overloaded(
                f"request bodies with {self._limit} bytes are arriving already: send this one again later",
                stage="upload",
                retry_after=RETRY_SECONDS,
            )
        self.byte_count += byte_count

    def give_back(self, byte_count: int) -> None:
        """Forgets bytes that were taken."""
        self.byte_count -= byte_count
