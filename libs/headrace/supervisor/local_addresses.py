"""Addresses of a local platform: a reserved port for each process, and the two that its clients call."""

from collections.abc import Iterable
from pathlib import Path

from headrace.errors import ConfigError
from headrace.launch.site import ProcessSite
from headrace.supervisor.lan_address import is_loopback_address, joined, lan_host, near_host
from headrace.supervisor.options import PlatformOptions
from headrace.supervisor.ports import HOST, PortReservation


class LocalAddresses:
    """Holds the ports until it is closed."""

    def __init__(self, options: PlatformOptions, names: Iterable[str]) -> None:
        """Reserves the ports of the options, and one for each process of `names`. Raises ConfigError."""
        self._options = options
        self._ports: dict[str, PortReservation] = {}
        self._reserve("http", options.http_port, options.host, listens=True)
        self._reserve("grpc", options.grpc_port, options.host)
        for name in names:
            self._reserve(name, 0)

    @property
    def http_address(self) -> str:
        return self._ports["http"].address

    @property
    def http_socket(self) -> int:
        """File descriptor of the socket from which the gateways accept."""
        return self._ports["http"].descriptor

    @property
    def http_url(self) -> str:
        """URL of the REST bridge, for this machine."""
        return f"{self._scheme}://{joined(near_host(self._options.host), self._ports['http'].port)}"

    @property
    def lan_url(self) -> str | None:
        """URL of the REST bridge, for other machines; None if they do not reach it."""
        host = self._options.host
        if is_loopback_address(host):
            return None
        return f"{self._scheme}://{joined(lan_host(host), self._ports['http'].port)}"

    @property
    def grpc_address(self) -> str:
        """Address of the gRPC API, for this machine."""
        return joined(near_host(self._options.host), self._ports["grpc"].port)

    def gateway_site(self, name: str, workers_file: Path) -> ProcessSite:
        """Returns the site of a gateway: gateways share the public port, and each is probed at its own."""
        return ProcessSite(self._ports["grpc"].address, probe=self._ports[name].address, workers_file=workers_file)

    def site(self, name: str, *, folder: Path | None = None, workers_file: Path | None = None) -> ProcessSite:
        """Returns the site of any other process."""
        return ProcessSite(self._ports[name].address, folder=folder, workers_file=workers_file)

    def refuse_clients(self) -> None:
        """Closes the port of the REST bridge, so that no client waits for a gateway that does not come."""
        self._ports["http"].close()

    def close(self) -> None:
        for reservation in self._ports.values():
            reservation.close()

    @property
    def _scheme(self) -> str:
        return "http" if self._options.public_certificate is None else "https"

    def _reserve(self, name: str, port: int, host: str = HOST, *, listens: bool = False) -> None:
        try:
            self._ports[name] = PortReservation(port, name, listens, host)
        except ConfigError:
            self.close()
            raise
