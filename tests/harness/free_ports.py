"""Free ports for a program that starts listening a little later."""

import contextlib
import random
import socket
from pathlib import Path

MIN_PORT, USUAL_EPHEMERAL_PORT = 15_000, 32_768
EPHEMERAL_PORTS = Path("/proc/sys/net/ipv4/ip_local_port_range")
TRIES = 1_000


def free_ports(count: int) -> list[int]:
    """Returns free consecutive ports of loopback. They lie below the ephemeral ones, which the system gives to
    connections and for port 0: such a port may be taken again before the caller's program starts, and stays taken for
    a minute after a connection has ended."""
    end = _first_ephemeral_port()
    for _ in range(TRIES):
        first = random.randrange(MIN_PORT, end - count)
        ports = list(range(first, first + count))
        if all(map(_is_free, ports)):
            return ports
    raise AssertionError(f"found no {count} free ports in a row between {MIN_PORT} and {end}")


def _is_free(port: int) -> bool:
    with socket.socket() as probe, contextlib.suppress(OSError):
        probe.bind(("127.0.0.1", port))
        return True
    return False


def _first_ephemeral_port() -> int:
    """Returns the lowest ephemeral port of the system, where ports below it are left to choose from."""
    with contextlib.suppress(OSError, ValueError, IndexError):
        lowest = int(EPHEMERAL_PORTS.read_text().split()[0])
        return lowest if lowest > MIN_PORT else USUAL_EPHEMERAL_PORT
    return USUAL_EPHEMERAL_PORT
