"""Addresses on which a platform is reached: flags before settings, settings before defaults."""

from dataclasses import dataclass
from pathlib import Path

from headrace.cli.reach.gateway_setting import gateway_setting
from headrace.errors import ConfigError

USUAL_HOST = "127.0.0.1"
USUAL_HTTP_PORT, USUAL_GRPC_PORT = 8000, 9000


@dataclass(frozen=True, slots=True)
class PublicAddresses:
    """Host and ports of the REST bridge and of the gRPC API."""

    host: str
    http_port: int
    grpc_port: int


def public_addresses(
    host: str | None, http_port: int | None, grpc_port: int | None, config: Path | None
) -> PublicAddresses:
    """Returns the addresses that flags give, or else the settings gateway.http_address and gateway.listen_address.
    Raises ConfigError for settings that make no sense, and for two hosts: both are served on one."""
    http_host, set_http_port = _parts("http_address", config)
    grpc_host, set_grpc_port = _parts("listen_address", config)
    if host is None and http_host and grpc_host and http_host != grpc_host:
        raise ConfigError(
            f"gateway.http_address has the host {http_host} and gateway.listen_address {grpc_host}: headrace up serves "
            "both on one; make them equal, or choose with --host",
            param="host",
        )
    return PublicAddresses(
        host or http_host or grpc_host or USUAL_HOST,
        _first(http_port, set_http_port, USUAL_HTTP_PORT),
        _first(grpc_port, set_grpc_port, USUAL_GRPC_PORT),
    )


def _first(*ports: int | None) -> int:
    return next(port for port in ports if port is not None)


def _parts(name: str, config: Path | None) -> tuple[str, int | None]:
    address = gateway_setting(name, config)
    if not address:
        return "", None
    host, _, port = address.rpartition(":")
    if not host or not port.isdigit():
        raise ConfigError(f"gateway.{name} is {address!r}; write HOST:PORT", param="config")
    return host.strip("[]"), int(port)
