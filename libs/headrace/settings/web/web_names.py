"""Hosts and origins as browsers write them, and the settings that list them."""

import ipaddress
import re
from typing import Annotated
from urllib.parse import urlsplit

from pydantic import AfterValidator

from headrace.settings.names import Names

EVERY = "*"
_HOST = re.compile(r"[^\s/:@\[\]]+")
_DEFAULT_PORTS = {"http": 80, "https": 443}


def host_name(authority: str) -> str:
    """Returns the host in an authority: `localhost` in `LOCALHOST:8000`, `::1` in `[::1]:8000`."""
    host = authority.strip().lower()
    name = host[1:].partition("]")[0] if host.startswith("[") else host.partition(":")[0]
    return name.removesuffix(".")


def is_loopback(name: str) -> bool:
    """Whether a name means the machine itself, whatever the network's DNS answers."""
    if name == "localhost" or name.endswith(".localhost"):
        return True
    return _is_address(name) and ipaddress.ip_address(name).is_loopback


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def is_same_origin(origin: str, authority: str) -> bool:
    """Whether a page of `origin` was served from the host and port that the request was sent to."""
    scheme, separator, place = origin.strip().lower().partition("://")
    default = _DEFAULT_PORTS.get(scheme)
    return (
        bool(separator) and bool(place) and _with_port(place, default) == _with_port(authority.strip().lower(), default)
    )


def _with_port(authority: str, default: int | None) -> tuple[str, str]:
    port = authority.rpartition("]")[2].partition(":")[2]
    return host_name(authority), port or str(default)


def _check_hosts(names: tuple[str, ...]) -> tuple[str, ...]:
    for name in names:
        if not _HOST.fullmatch(name) and not _is_address(name.strip("[]")):
            raise ValueError(f"{name!r} is no host: write a name or an address, without scheme and port, or *")
    return tuple(name.strip("[]").lower().removesuffix(".") for name in names)


def _check_origins(origins: tuple[str, ...]) -> tuple[str, ...]:
    for origin in origins:
        parts = urlsplit(origin)
        is_origin = parts.scheme and parts.netloc and not (parts.path.strip("/") or parts.query or parts.fragment)
        if origin not in (EVERY, "null") and not is_origin:
            raise ValueError(f"{origin!r} is no origin: write SCHEME://HOST or SCHEME://HOST:PORT, or *")
    return tuple(origin.rstrip("/").lower() for origin in origins)


HostNames = Annotated[Names, AfterValidator(_check_hosts)]
"""Names and addresses without ports, separated by commas; `*` allows any."""
Origins = Annotated[Names, AfterValidator(_check_origins)]
"""Written as SCHEME://HOST:PORT, separated by commas; `*` allows any."""
