"""Starts processes as programs."""

import asyncio
import os

from headrace.supervisor.spawning.parent_death import die_with_parent
from headrace.supervisor.spawning.process_start import ProcessStart
from headrace.supervisor.spawning.running_process import RunningProcess


class ProgramSpawner:
    """Executes the command of each process."""

    async def spawn(self, start: ProcessStart) -> RunningProcess:
        """Starts a process. Raises OSError."""
        with start.log_path.open("ab") as log:
            return await asyncio.create_subprocess_exec(
                *start.command,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env={**os.environ, **start.environment},
                start_new_session=True,
                pass_fds=start.descriptors,
                preexec_fn=die_with_parent,
            )

    def close(self) -> None:
        """Has nothing to end."""
