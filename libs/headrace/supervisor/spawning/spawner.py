"""Starts processes, one way or another."""

from typing import Protocol

from headrace.supervisor.spawning.process_start import ProcessStart
from headrace.supervisor.spawning.running_process import RunningProcess


class Spawner(Protocol):
    """Starts the processes of a platform."""

    async def spawn(self, start: ProcessStart) -> RunningProcess:
        """Starts a process. Raises OSError."""

    def close(self) -> None:
        """Ends what only serves to start processes. Processes that were started keep running."""
