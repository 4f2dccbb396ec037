"""Keys that a platform is started with, and whether it may be reached from other machines without any."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from headrace.access.key_file import FILE_NAME, KeyFile
from headrace.cli.reach.gateway_setting import gateway_path
from headrace.cli.reach.public_addresses import USUAL_HOST
from headrace.errors import ConfigError
from headrace.supervisor.lan_address import is_loopback_address


@Parameter(name="*")
@dataclass(frozen=True, slots=True)
class Reach:
    """Address of a platform, and whether anyone may come in."""

    host: str | None = None
    """Address on which HTTP and gRPC are served: 0.0.0.0 for every one of this machine. On others than loopback API
    keys are needed. Default: that of the setting gateway.http_address, or 127.0.0.1."""
    without_keys: Annotated[bool, Parameter(negative="")] = False
    """Let in all clients that reach the address, without a key."""


@dataclass(frozen=True, slots=True)
class KeyChoice:
    """The file of keys, and how many of them work."""

    path: Path | None = None
    """None: no key is needed."""
    count: int = 0
    awaited: Path | None = None
    """File that the first key will be in, which is needed from then on. None: there is one, or no key is wanted."""


def choose_keys(reach: Reach, state_dir: Path, config: Path | None) -> KeyChoice:
    """Returns the keys that the settings name, or else those of the state folder. Raises ConfigError where other
    machines could come in without a key and no setting allows it."""
    named = gateway_path("keys_file", config)
    if reach.without_keys and named is not None:
        raise ConfigError(
            f"--without-keys, and gateway.keys_file names {named}: take one of them away", param="without-keys"
        )
    usual = (state_dir / FILE_NAME).expanduser().absolute()
    path = named or (usual if usual.exists() and not reach.without_keys else None)
    awaited = None if reach.without_keys else usual
    choice = KeyChoice(awaited=awaited) if path is None else KeyChoice(path, _count(path))
    host = reach.host or USUAL_HOST
    if not choice.count and not reach.without_keys and not is_loopback_address(host):
        raise ConfigError(
            f"other machines can reach {host}, but no API key exists: make one with headrace keys create NAME, or let "
            "all clients in with --without-keys",
            param="host",
        )
    return choice


def _count(path: Path) -> int:
    return sum(record.is_valid() for record in KeyFile(path).read().values())
