"""The NATS server of a platform that brings one along."""

from dataclasses import dataclass, field
from pathlib import Path

DEFAULT_PORT = 4222
ANY_PORT = -1
"""Port with which the server picks a free one."""
TOKEN_VARIABLE = "HEADRACE_NATS_TOKEN"  # noqa: S105 - the name of a variable


@dataclass(frozen=True, slots=True)
class NatsSpec:
    """Files and ports of the NATS server."""

    config: Path
    """Its configuration, which says who may connect."""
    store: Path
    """Folder of JetStream."""
    host: str = ""
    """Address that it listens on. Empty: all addresses, on the default port."""
    port: int = DEFAULT_PORT
    ports_folder: Path | None = None
    """Folder in which the server writes down the port that it picked."""
    monitoring_port: int = 0
    """Port of its HTTP monitoring. 0 serves none."""
    token: str = field(default="", repr=False)
    """Secret that clients show, where the configuration reads it from the environment."""

    @property
    def address(self) -> str:
        return f"{self.host}:{self.port}"

    @property
    def environment(self) -> dict[str, str]:
        """Variables for the server. The token is in neither its arguments nor its files, which others may read."""
        return {TOKEN_VARIABLE: self.token} if self.token else {}

    @property
    def arguments(self) -> tuple[str, ...]:
        """Arguments of `nats-server`."""
        listening = ("--addr", self.host, "--port", str(self.port)) if self.host else ()
        written = ("--ports_file_dir", str(self.ports_folder)) if self.ports_folder else ()
        monitored = ("--http_port", str(self.monitoring_port)) if self.monitoring_port else ()
        stored = ("--jetstream", "--store_dir", str(self.store))
        return ("--config", str(self.config), *listening, *stored, *written, *monitored)
