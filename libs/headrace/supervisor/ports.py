"""Ports that stay reserved while the processes that serve there come and go."""

import socket

from headrace.errors import AddressInUse

HOST = "127.0.0.1"
BACKLOG = 2048
"""Most connections that wait while no process accepts them."""


class PortReservation:
    """Holds a TCP port on loopback.

    One that listens is passed on to the processes that serve there: they accept from one queue, in which clients wait
    while none of them does, be it frozen or just starting. Any other is only kept, with SO_REUSEPORT: processes of the
    same user that set it too can listen there.
    """

    def __init__(self, port: int, purpose: str, listens: bool = False) -> None:
        if port:
            _refuse_if_in_use(port, purpose)
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR if listens else socket.SO_REUSEPORT, 1)
        try:
            self._socket.bind((HOST, port))
        except (OSError, OverflowError) as error:
            self._socket.close()
            raise AddressInUse(f"cannot use port {port} for {purpose}: {error}") from None
        if listens:
            self._socket.listen(BACKLOG)
        self.address = f"{HOST}:{self._socket.getsockname()[1]}"

    @property
    def descriptor(self) -> int:
        """The file descriptor of the socket."""
        return self._socket.fileno()

    def close(self) -> None:
        self._socket.close()


def _refuse_if_in_use(port: int, purpose: str) -> None:
    """Raises AddressInUse if a port is taken. Looks without SO_REUSEPORT, with which two platforms could share it."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except (OSError, OverflowError):
            raise AddressInUse(
                f"port {port} is in use by another program. Choose another for {purpose} with --{purpose}-port, "
                "or 0 for any free one",
                param=f"{purpose}-port",
            ) from None
