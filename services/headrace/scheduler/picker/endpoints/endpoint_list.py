"""Endpoints of a pool, from flags, a file and the name of a service."""

import asyncio
import ipaddress
import logging
import socket
from collections.abc import Awaitable, Callable, Iterable, Sequence
from pathlib import Path

from headrace.errors import ConfigError

LOOKUP_SECONDS = 5.0
MAX_ENDPOINTS = 4096
MAX_FILE_BYTES = 1_000_000

Lookup = Callable[[str, int], Awaitable[Sequence[str]]]
"""Returns the IP addresses behind a name and a port."""

_log = logging.getLogger(__name__)


def checked_endpoint(text: str) -> str:
    """Returns `IP:PORT` in its usual form. Raises ConfigError for anything else: a proxy connects to it as it is."""
    host, _, port = text.strip().rpartition(":")
    is_bracketed = host.startswith("[") and host.endswith("]")
    try:
        address = ipaddress.ip_address(host[1:-1] if is_bracketed else host)
        if not (port.isascii() and port.isdecimal() and 0 < int(port) < 65536):
            raise ValueError(port)
    except ValueError:
        raise ConfigError(f"{text[:80]!r} is no endpoint; it must be IP:PORT, such as 10.0.0.7:8000") from None
    return f"{f'[{address}]' if address.version == 6 else address}:{int(port)}"


async def look_up(name: str, port: int) -> Sequence[str]:
    """Asks the resolver of the machine."""
    found = await asyncio.get_running_loop().getaddrinfo(name, port, type=socket.SOCK_STREAM)
    return [str(entry[4][0]) for entry in found]


class EndpointList:
    """Joins all that is named. A file or a service that cannot be read stays as it was: its endpoints show themselves
    whether they are ready."""

    def __init__(
        self, endpoints: Iterable[str] = (), file: Path | None = None, service: str = "", lookup: Lookup = look_up
    ) -> None:
        """`service`: `NAME:PORT` of a headless service. Raises ConfigError."""
        self._fixed = frozenset(map(checked_endpoint, endpoints))
        self._file = file
        self._version: tuple[int, int, int] | None = None
        """Inode, size and time of the file that was read last."""
        self._of_file: frozenset[str] = frozenset()
        self._name, _, port = service.rpartition(":")
        if service and not (self._name and port.isascii() and port.isdecimal() and 0 < int(port) < 65536):
            raise ConfigError(f"{service[:80]!r} is no service; it must be NAME:PORT, such as vllm.ai.svc:8000")
        if not (self._fixed or file or service):
            raise ConfigError("no endpoints are named: give endpoints, endpoints_file or service")
        self._port = int(port) if service else 0
        self._of_service: frozenset[str] = frozenset()
        self._lookup = lookup

    async def read(self) -> frozenset[str]:
        """Returns the endpoints that there are now."""
        if self._file is not None:
            try:
                self._read_file(self._file)
            except (OSError, UnicodeDecodeError, ConfigError) as error:
                reason = error.message if isinstance(error, ConfigError) else repr(error)
                _log.warning("the file of endpoints is not used", extra={"path": str(self._file), "error": reason})
        if self._name:
            try:
                async with asyncio.timeout(LOOKUP_SECONDS):
                    found = await self._lookup(self._name, self._port)
                self._of_service = frozenset(_joined(address, self._port) for address in found)
            except (OSError, ConfigError, UnicodeError) as error:
                _log.warning("the service cannot be resolved", extra={"service": self._name, "error": repr(error)})
        return frozenset(sorted(self._fixed | self._of_file | self._of_service)[:MAX_ENDPOINTS])

    def _read_file(self, path: Path) -> None:
        """Reads the file again if it has changed: one endpoint a line, comments after `#`."""
        status = path.stat()
        if (version := (status.st_ino, status.st_size, status.st_mtime_ns)) == self._version:
            return
        if status.st_size > MAX_FILE_BYTES:
            raise ConfigError(f"it has more than {MAX_FILE_BYTES} bytes")
        lines = (line.partition("#")[0].strip() for line in path.read_text().splitlines())
        self._of_file, self._version = frozenset(checked_endpoint(line) for line in lines if line), version


def _joined(address: str, port: int) -> str:
    return checked_endpoint(f"[{address}]:{port}" if ":" in address else f"{address}:{port}")
