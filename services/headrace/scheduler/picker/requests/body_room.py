"""Memory for the bodies of requests, shared by all."""

from headrace.errors import Overloaded, PayloadTooLarge

RETRY_SECONDS = 1.0


class BodyRoom:
    """Bounds each body, and all of them together."""

    def __init__(self, max_body_bytes: int, max_held_bytes: int) -> None:
        """`max_held_bytes`: bytes of all bodies that are held at once."""
        self.max_body_bytes = max_body_bytes
        self._max_held_bytes = max_held_bytes
        self.held_bytes = 0

    def check(self, byte_count: int) -> None:
        """Raises PayloadTooLarge for a body of more bytes than one may have."""
        if byte_count > self.max_body_bytes:
            raise PayloadTooLarge(f"the body has more than {self.max_body_bytes} bytes")

    def take(self, byte_count: int) -> None:
        """Takes room for so many bytes more. Raises Overloaded where there is none."""
        if self.held_bytes + byte_count > self._max_held_bytes:
            raise Overloaded("too many bodies of requests are being read", retry_after=RETRY_SECONDS)
        self.held_bytes += byte_count

    def give(self, byte_count: int) -> None:
        """Gives room back."""
        self.held_bytes -= byte_count
