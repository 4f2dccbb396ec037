"""Place in which a platform runs: addresses, folders and secrets that a launcher has found for its processes."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from headrace.errors import ConfigError
from headrace.launch.nats_spec import NatsSpec


@dataclass(frozen=True, slots=True)
class ProcessSite:
    """Addresses and files of one process."""

    listen: str
    """Address that it serves gRPC on."""
    advertise: str = ""
    """Address at which others reach it. Empty: the one it listens on."""
    probe: str = ""
    """Address of this process alone, where several share the first one. Empty: it shares none."""
    metrics_port: int = 0
    """Port of this process's metrics. 0: it serves none."""
    folder: Path | None = None
    """Folder of a cache's responses."""
    workers_file: Path | None = None
    """File in which it keeps the addresses of workers over a restart. None: it keeps none."""

    @property
    def called(self) -> str:
        """Address at which other processes call it."""
        return self.advertise or self.listen

    @property
    def probed(self) -> str:
        """Address at which the health of this one process is asked."""
        return self.probe or self.listen


@dataclass(frozen=True, slots=True)
class Site:
    """Addresses, folders and secrets of a platform."""

    processes: Mapping[str, ProcessSite]
    """A site for each process, by its name in the `Roster`."""
    http_address: str
    """Address that the gateways serve HTTP on."""
    nats_url: str
    """URL at which the services find NATS, with its secret if that has no file."""
    nats: NatsSpec | None = None
    """NATS server of the platform. None: another one runs already."""
    http_socket: int | None = None
    """File descriptor of a listening socket that the gateways inherit. None: each listens on its own."""
    usage_folder: Path | None = None
    models_file: Path | None = None
    """File of what is loaded, unloaded and named while the platform runs. None leaves it to the gateway's settings."""
    files_folder: Path | None = None
    """Folder of the files and batches of clients. None leaves it to the gateway's settings."""
    credential: str = field(default="", repr=False)
    """Secret that the services show each other."""
    credential_file: Path | None = None
    """File of that secret, instead of the secret itself."""
    certificates: Mapping[str, Path] = field(default_factory=dict)
    """Folder of the certificate of each role. Empty: plain text."""
    core_count: int = 1
    """Cores that the workers share."""

    def of(self, name: str) -> ProcessSite:
        """Returns the site of a process. Raises ConfigError."""
        if name not in self.processes:
            raise ConfigError(f"the plan starts {name}, which has no address: add it to the processes of the site")
        return self.processes[name]
