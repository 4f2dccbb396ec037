"""One process of a plan: what runs, with which settings, and when it is ready."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from headrace.settings.flags import as_flags


@dataclass(frozen=True, slots=True)
class PlannedPort:
    """A port that a process listens on."""

    purpose: Literal["grpc", "http", "metrics", "nats", "monitoring", "probe"]
    number: int
    is_public: bool = False
    """Whether clients call it, who are no processes of the platform."""


@dataclass(frozen=True, slots=True)
class HealthCheck:
    """A question to a process, and the protocol in which it is asked."""

    protocol: Literal["grpc", "http", "nats"]
    """`grpc`: the standard health service. `http`: GET `path` answers with 200. `nats`: a new connection is greeted."""
    address: str
    path: str = ""


@dataclass(frozen=True, slots=True)
class ProcessSpec:
    """A process, described for any launcher."""

    name: str
    role: str
    """Kind of process: a service or nats."""
    module: str
    """Python module that it runs. Empty: it is no Python, but the NATS server."""
    health: HealthCheck
    """Tells when the process is ready, and later whether it is alive."""
    settings: Mapping[str, object] = field(default_factory=dict)
    """Settings of the service, by name. They win over its environment and its file."""
    defaults: Mapping[str, object] = field(default_factory=dict)
    """Settings over which the service's environment and file win."""
    config_file: Path | None = None
    """Configuration file of the service."""
    environment: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Variables: secrets, which other users could read from a command line, and whatever is read before settings."""
    server_arguments: tuple[str, ...] = ()
    """Arguments of a process that has no settings."""
    ports: tuple[PlannedPort, ...] = ()
    descriptors: tuple[int, ...] = ()
    """File descriptors that it inherits, under the same numbers."""
    needs: tuple[str, ...] = ()
    """Names of the processes that it calls: it is ready after them, and stops before them."""
    platform_health: HealthCheck | None = None
    """Tells whether the whole platform answers, as seen through this process. None: it does not know."""
    model: str = ""
    """Models of a worker, for people to read."""
    stop_seconds: float = 2.0
    """Seconds that it has to end after a stop signal."""

    @property
    def arguments(self) -> tuple[str, ...]:
        """Command line after the program, for a launcher that hands settings over as flags."""
        config = () if self.config_file is None else ("--config", str(self.config_file))
        weak = (part for name, value in self.defaults.items() for part in ("--default", f"{name}={value}"))
        return (*as_flags(self.settings), *config, *weak, *self.server_arguments)

    @property
    def variables(self) -> dict[str, str]:
        """Environment with all settings, for a launcher that gives no flags."""
        config = {} if self.config_file is None else {"HEADRACE_CONFIG": str(self.config_file)}
        given = {variable_of(self.role, name): _written(value) for name, value in self._given.items()}
        return {**config, **given, **self.environment}

    @property
    def _given(self) -> dict[str, object]:
        return {**self.defaults, **self.settings}


def variable_of(role: str, setting: str) -> str:
    """Returns the environment variable of a service's setting."""
    return f"HEADRACE_{role.upper()}_{setting.upper()}"


def _written(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
