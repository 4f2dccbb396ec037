"""Process that runs a platform on a state folder, seen from another process."""

import contextlib
import signal
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from headrace.errors import ConfigError, Forbidden, NotFound
from headrace.supervisor.state import holder_of, last_platform
from headrace.supervisor.system.process_identity import ProcessIdentity


class RunningSupervisor:
    """Signals the supervisor of one platform, and tells whether it still runs. A process that has its pid by now is
    left alone."""

    def __init__(self, folder: Path, identity: ProcessIdentity) -> None:
        self.folder = folder.expanduser().absolute()
        self.identity = identity

    @classmethod
    def find(cls, folder: Path) -> "RunningSupervisor | None":
        """Returns the supervisor of a state folder; None where no platform runs. Raises NotFound while one is just
        starting, and ConfigError for one of another machine or container."""
        identity = holder_of(folder)
        if identity is None:
            return None
        found = cls(folder, identity)
        if not identity.is_alive and found.is_running:
            raise ConfigError(
                f"the platform on {found.folder} runs on another machine, or in another container: ask for it there",
                param="state-dir",
            )
        return found

    @property
    def is_running(self) -> bool:
        """Whether the platform that was found still has its folder."""
        with contextlib.suppress(NotFound):
            return holder_of(self.folder) == self.identity
        return False

    def describe(self) -> dict[str, Any]:
        """Returns the description of the platform; empty before it has one."""
        return last_platform(self.folder)

    def send(self, number: signal.Signals) -> None:
        """Sends a signal, if it still runs. Raises Forbidden for the platform of another user."""
        try:
            self.identity.send(number)
        except PermissionError:
            raise Forbidden(
                f"the platform on {self.folder} (pid {self.identity.pid}) belongs to another user"
            ) from None


def service_identities(described: Mapping[str, Any]) -> Sequence[ProcessIdentity]:
    """Returns the processes of the services in a description of a platform."""
    services = described.get("services", ())
    return [ProcessIdentity(each["pid"], each["birth"]) for each in services if each.get("pid") and each.get("birth")]
