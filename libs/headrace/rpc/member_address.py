"""Address of one of several services behind one port, `host:port/name`. The name travels in each call's metadata."""

from collections.abc import Iterable

KEY = "headrace-member"
"""Key of the metadata that names the service."""


def joined(address: str, name: str) -> str:
    """Returns the address of the service `name` at `host:port`. Without a name, `host:port` as it is."""
    return f"{address}/{name}" if name else address


def split(address: str) -> tuple[str, str]:
    """Returns `host:port`, and the name, which may be empty."""
    target, _, name = address.partition("/")
    return target, name


def named(metadata: Iterable[tuple[str, str | bytes]] | None) -> str:
    """Returns the name in the metadata of a call. Empty: it has none."""
    found = next((value for key, value in metadata or () if key == KEY), "")
    return found if isinstance(found, str) else found.decode(errors="replace")
