"""Identity of a process: its pid, and the time of its birth, because pids are given again."""

import os
import signal
import sys
from dataclasses import dataclass
from pathlib import Path

_STATE, _BIRTH = 0, 19
"""Fields of /proc/PID/stat after the name of the program."""


@dataclass(frozen=True, slots=True)
class ProcessIdentity:
    """One process, and no later one that has the same pid."""

    pid: int
    birth: str
    """Time of its start as the system writes it, which no change of the clock changes."""

    @classmethod
    def of(cls, pid: int) -> "ProcessIdentity | None":
        """Returns the identity of a process that runs now; None where there is none."""
        birth = _birth_of(pid)
        return None if birth is None else cls(pid, birth)

    @property
    def is_alive(self) -> bool:
        """Whether it still runs. One that has ended, and that its parent has not asked for, does not."""
        return _birth_of(self.pid) == self.birth

    def send(self, number: signal.Signals) -> bool:
        """Sends a signal to this process, and never to another one with its pid. Returns whether it still ran. Raises
        PermissionError for a process of another user."""
        try:
            if not hasattr(os, "pidfd_open"):
                # Between the two another process could get the pid, if all others were given within a moment.
                if self.is_alive:
                    os.kill(self.pid, number)
                return self.is_alive
            descriptor = os.pidfd_open(self.pid)
        except ProcessLookupError:
            return False
        try:
            # The descriptor means the process that had the pid when it was opened: if that was this one, it stays so.
            if not self.is_alive:
                return False
            signal.pidfd_send_signal(descriptor, number)
        except ProcessLookupError:
            return False
        finally:
            os.close(descriptor)
        return True


def _birth_of(pid: int) -> str | None:
    if sys.platform != "linux":
        return _birth_elsewhere(pid)
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()
    except OSError:
        return None
    return None if fields[_STATE] in ("Z", "X") else fields[_BIRTH]


def _birth_elsewhere(pid: int) -> str | None:
    # Comes with what runs a platform; other commands work without it.
    import psutil

    try:
        process = psutil.Process(pid)
        return None if process.status() == psutil.STATUS_ZOMBIE else repr(process.create_time())
    except psutil.Error:
        return None
