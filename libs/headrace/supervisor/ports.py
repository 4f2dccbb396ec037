"""Ports that stay reserved while the processes that serve there come and go."""

import errno
import socket

from headrace.errors import AddressInUse, ConfigError
from headrace.supervisor.lan_address import family_of, joined

HOST = "127.0.0.1"
MAX_PORT = 65535
BACKLOG = 2048
"""Maximum number of connections that wait while no process accepts them."""


class PortReservation:
    """Holds a TCP port, on loopback unless another address is given.

    One that listens is passed on to the processes that serve there: they accept from one queue, in which clients wait
    while none of them does, be it frozen or just starting. Any other is only kept, with SO_REUSEPORT: processes of the
    same user that set it too can listen there.
    """

    def __init__(self, port: int, purpose: str, listens: bool = False, host: str = HOST) -> None:
        if not 0 <= port <= MAX_PORT:
            raise ConfigError(f"{port} is no port: a port is a number from 0 to {MAX_PORT}", param=f"{purpose}-port")
        if port:
            _refuse_if_in_use(host, port, purpose)
        self._socket = socket.socket(family_of(host), socket.SOCK_STREAM)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR if listens else socket.SO_REUSEPORT, 1)
        try:
            self._socket.bind((host, port))
        except (OSError, OverflowError) as error:
            self._socket.close()
            _check_address(host, error)
            raise AddressInUse(f"cannot use port {port} of {host} for {purpose}: {error}") from None
        if listens:
            self._socket.listen(BACKLOG)
        self.port: int = self._socket.getsockname()[1]
        self.address = joined(host, self.port)

    @property
    def descriptor(self) -> int:
        """The file descriptor of the socket."""
        return self._socket.fileno()

    def close(self) -> None:
        self._socket.close()


def _refuse_if_in_use(host: str, port: int, purpose: str) -> None:
    """Raises AddressInUse if a port is taken. Looks without SO_REUSEPORT, with which two platforms could share it."""
    with socket.socket(family_of(host), socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except (OSError, OverflowError) as error:
            _check_address(host, error)
            raise AddressInUse(
                f"port {port} is in use by another program. Choose another for {purpose} with --{purpose}-port, "
                "or 0 for any free one",
                param=f"{purpose}-port",
            ) from None


def _check_address(host: str, error: Exception) -> None:
    """Raises ConfigError if it is the address that `error` is about, and not the port."""
    if isinstance(error, socket.gaierror) or getattr(error, "errno", None) == errno.EADDRNOTAVAIL:
        raise ConfigError(
            f"{host} is not an address of this machine: give one that is, or 0.0.0.0 for all", param="host"
        ) from None
