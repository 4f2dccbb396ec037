"""Login of a connection to NATS, as the bus needs it."""

from typing import Any, Protocol

from headrace.bus.bus import Store


class Login(Protocol):
    """Certificate that a connection shows, and what it may do."""

    @property
    def options(self) -> dict[str, Any]:
        """Options of `nats.connect`."""

    def may_make(self, store: Store) -> bool:
        """Whether it may make a bucket that is not there yet."""

    def reload(self) -> None:
        """Reads the certificate and key again, for the next connection. Raises OSError."""
