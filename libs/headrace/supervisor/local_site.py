"""This machine as the site of a platform: reserved ports, the folders below its state, its NATS, and its secrets."""

import sys
from pathlib import Path

from headrace.engine.memory.host_cores import usable_core_count
from headrace.errors import ConfigError
from headrace.launch.platform_spec import PlatformSpec
from headrace.launch.process_spec import ProcessSpec
from headrace.launch.roster import NATS_NAME, Roster
from headrace.launch.site import ProcessSite, Site
from headrace.rpc.channel import Channel
from headrace.served.served_file import FILE_NAME
from headrace.supervisor.lan_address import is_loopback_address, joined, lan_host, near_host
from headrace.supervisor.nats_server import LocalNats
from headrace.supervisor.options import PlatformOptions
from headrace.supervisor.ports import HOST, PortReservation
from headrace.supervisor.security.platform_certificates import PlatformCertificates
from headrace.supervisor.spawning.process_start import ProcessStart
from headrace.supervisor.state import FILES_FOLDER, USAGE_FOLDER, WORKERS_FOLDER, StateFolder


class LocalSite:
    """Holds the ports until it is closed."""

    def __init__(self, options: PlatformOptions, state: StateFolder) -> None:
        """Makes the secret, and reserves the ports of the options and one for each process. Raises ConfigError."""
        self._options = options
        self._folder = state.path
        self._credential = state.make_credential()
        self.certificates = PlatformCertificates(options.certificates)
        known = self.certificates.nats_folder, self.certificates.nats_login
        self.nats = None if options.nats_url else LocalNats(state.path / "nats", self._credential, *known)
        self._roster = Roster.of(options.platform)
        self._ports: dict[str, PortReservation] = {}
        self._reserve("http", options.http_port, options.host, listens=True)
        self._reserve("grpc", options.grpc_port, options.host)
        for name in self._roster.names:
            self._reserve(name, 0)

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

    @property
    def nats_url(self) -> str:
        """URL at which services find NATS, with the secret that it asks for."""
        return self._options.nats_url or (self.nats.url if self.nats else "")

    def describe(self) -> Site:
        """Describes the site to a plan. NATS has its port only once it is ready: describe it again then."""
        return Site(
            processes=self._process_sites(),
            http_address=self._ports["http"].address,
            nats_url=self.nats_url,
            nats=self.nats.spec if self.nats else None,
            http_socket=self._ports["http"].descriptor,
            usage_folder=self._folder / USAGE_FOLDER,
            files_folder=self._folder / FILES_FOLDER,
            models_file=self._folder / FILE_NAME,
            credential=self._credential,
            certificates=self.certificates.role_folders,
            core_count=usable_core_count(),
        )

    def start_of(self, planned: ProcessSpec, log_path: Path) -> ProcessStart:
        """Returns what a planned process is started with on this machine."""
        chosen = self._options.worker_python if planned.role == "worker" else None
        if self.nats is not None and planned.name == NATS_NAME:
            program = [self.nats.binary]
        else:
            # -P: files of the current folder are no modules of a service.
            program = [str(chosen or sys.executable), "-P", "-m", planned.module]
        return ProcessStart(
            command=[*program, *planned.arguments],
            log_path=log_path,
            environment=planned.environment,
            descriptors=planned.descriptors,
            module=planned.module,
            arguments=planned.arguments,
            is_importable=bool(planned.module) and chosen is None,
        )

    def admit(self, platform: PlatformSpec) -> None:
        """Finds room for the processes of a platform that has changed. Raises ConfigError."""
        self._roster = Roster.of(platform)
        for name in self._roster.names:
            if name not in self._ports:
                self._ports[name] = PortReservation(0, name)

    def open_channel(self, address: str, role: str) -> Channel:
        """Opens a channel to a service, as an operator who may call it."""
        return self.certificates.open_channel(address, role, self._credential)

    def refuse_clients(self) -> None:
        """Closes the port of the REST bridge, so that no client waits for a gateway that does not come."""
        self._ports["http"].close()

    def close(self) -> None:
        if self.nats is not None:
            self.nats.close()
        self._close_ports()

    @property
    def _scheme(self) -> str:
        return "http" if self._options.public_certificate is None else "https"

    def _process_sites(self) -> dict[str, ProcessSite]:
        """Gives each process its port. Gateways share the public one, and each is probed at its own."""
        roster, folder = self._roster, self._folder
        address = {name: port.address for name, port in self._ports.items()}
        keepers = (*roster.gateways, *roster.schedulers)
        kept = {name: folder / WORKERS_FOLDER / f"{name}.json" for name in keepers}
        sites = {name: ProcessSite(address[name], workers_file=kept.get(name)) for name in roster.names}
        for name in roster.gateways:
            sites[name] = ProcessSite(address["grpc"], probe=address[name], workers_file=kept[name])
        for name in roster.caches:
            sites[name] = ProcessSite(address[name], folder=folder / name)
        return sites

    def _reserve(self, name: str, port: int, host: str = HOST, *, listens: bool = False) -> None:
        try:
            self._ports[name] = PortReservation(port, name, listens, host)
        except ConfigError:
            self._close_ports()
            raise

    def _close_ports(self) -> None:
        for reservation in self._ports.values():
            reservation.close()
