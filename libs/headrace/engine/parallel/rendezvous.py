"""Ways in which the ranks of a group find one another: the first rank opens a rendezvous, the others connect to it."""

import socket
import time
from collections.abc import Mapping
from typing import Protocol

from headrace.engine.parallel.collective import Store, host_store
from headrace.errors.tree import ConfigError

LEADER_VARIABLE = "HEADRACE_LEADER"
"""Variable with the address of the first rank, for ranks that are started without arguments."""
RETRY_SECONDS = 0.2
ATTEMPT_SECONDS = 5.0
"""Minimum timeout of one attempt to connect."""


class Rendezvous(Protocol):
    """The first rank's end of the meeting."""

    @property
    def store(self) -> Store:
        """Store in which the ranks then find each other for their exchanges."""
        ...

    def accept(self, seconds: float) -> socket.socket:
        """Waits for the connection of a further rank. Raises TimeoutError."""
        ...

    def close(self) -> None:
        """Accepts no more ranks. Connected ones stay."""
        ...

    def end(self) -> None:
        """Waits until the ranks that were started here have ended, and kills the late ones."""
        ...


class AddressedRendezvous:
    """Rendezvous at a known address, to which ranks come that an outside launcher starts, on this host or on others."""

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


def leader_address(argument: str, environ: Mapping[str, str]) -> tuple[str, int]:
    """Returns host and port of the first rank, from an argument or else from the environment. Raises ConfigError."""
    given = argument or environ.get(LEADER_VARIABLE, "")
    host, _, port = given.rpartition(":")
    if not host or not port.isdigit():
        said = f"is {given!r}" if given else "is not given"
        raise ConfigError(
            f"the address of the first rank {said}: it is HOST:PORT, in --leader or in {LEADER_VARIABLE}",
            param="leader",
        )
    return host, int(port)


def find_leader(address: tuple[str, int], seconds: float) -> socket.socket:
    """Connects to the first rank, which may start up to `seconds` later than this one. Raises ConfigError."""
    limit = time.monotonic() + seconds
    while True:
        try:
            return socket.create_connection(address, max(ATTEMPT_SECONDS, limit - time.monotonic()))
        except OSError as error:
            if time.monotonic() + RETRY_SECONDS > limit:
                raise ConfigError(
                    f"no first rank answers at {address[0]}:{address[1]}, for {seconds:.0f} s: {error}. Start it with "
                    "that address as its rendezvous",
                    param="leader",
                ) from None
        time.sleep(RETRY_SECONDS)
