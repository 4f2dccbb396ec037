"""Rendezvous at a known address, to which ranks come that an outside launcher starts, on this host or on others."""

import socket

from headrace.engine.parallel.collective import Store, host_store
from headrace.errors.tree import ConfigError


class AddressedRendezvous:
    """Listens at an address, and starts nothing."""

    def __init__(self, address: str, world_size: int) -> None:
        """`address`: HOST:PORT, of which port 0 is any free one. Raises ConfigError if it cannot be used."""
        host, _, port = address.rpartition(":")
        try:
            self._listener = socket.create_server((host, int(port)))
        except (OSError, ValueError) as error:
            raise ConfigError(f"rendezvous is {address!r}: {error}", param="rendezvous") from None
        self.store: Store = host_store(host, world_size)

    @property
    def port(self) -> int:
        return int(self._listener.getsockname()[1])

    def accept(self, seconds: float) -> socket.socket:
        """Waits for the connection of a further rank. Raises TimeoutError."""
        self._listener.settimeout(seconds)
        return self._listener.accept()[0]

    def close(self) -> None:
        """Accepts no more ranks."""
        self._listener.close()

    def end(self) -> None:
        """Does nothing: an outside launcher ends its ranks, which end themselves when their connection does."""
