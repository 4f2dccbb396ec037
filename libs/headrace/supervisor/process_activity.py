"""Tells whether another process computes, or would if it were given a core."""

import contextlib
import os
from collections.abc import Iterator

BUSY_SHARE = 0.1
"""Smallest share of a core that a busy process uses or waits for; one with less is frozen."""


class ProcessActivity:
    """Counts the time for which a process has computed or waited for a core. A process that is gone has none."""

    def __init__(self, pid: int) -> None:
        # Imported here, because only a supervisor needs it: the command line also runs where it is not installed.
        import psutil

        self._errors = psutil.Error
        self._stopped = (psutil.STATUS_STOPPED, psutil.STATUS_TRACING_STOP)
        self._tasks = f"/proc/{pid}/task"
        self._process = None
        with contextlib.suppress(psutil.Error):
            self._process = psutil.Process(pid)
        self._seconds = 0.0
        self.begin()

    def begin(self) -> None:
        """Starts counting from now."""
        self._seconds = self._wanted_seconds()

    def is_busy(self, seconds: float) -> bool:
        """Whether it wanted a core in the `seconds` since the beginning. A stopped process wants nothing."""
        try:
            if self._process is None or self._process.status() in self._stopped:
                return False
        except self._errors:
            return False
        # The wait of a thread is counted only once it gets a core: until then it is merely ready.
        is_due = any(map(_is_due, self._read_of_threads("stat")))
        return is_due or self._wanted_seconds() - self._seconds > BUSY_SHARE * seconds

    def _wanted_seconds(self) -> float:
        if self._process is None:
            return 0.0
        try:
            times = self._process.cpu_times()
        except self._errors:
            return 0.0
        return float(times.user + times.system) + sum(map(_delay_seconds, self._read_of_threads("schedstat")))

    def _read_of_threads(self, name: str) -> Iterator[bytes]:
        """Yields that file of each thread. Plain calls of the system: a supervisor reads some fifty files at each
        answer of its services."""
        with contextlib.suppress(OSError):
            for thread in os.listdir(self._tasks):
                with contextlib.suppress(OSError), open(f"{self._tasks}/{thread}/{name}", "rb", buffering=0) as file:
                    yield file.read()


def _delay_seconds(schedstat: bytes) -> float:
    """Returns the seconds for which a thread was ready to run and had no core; 0 where the system does not count
    them."""
    fields = schedstat.split()
    return int(fields[1]) / 1e9 if len(fields) > 1 else 0.0


def _is_due(stat: bytes) -> bool:
    """Whether a thread is ready to run, or waits for a disk."""
    return stat.rpartition(b") ")[2][:1] in (b"R", b"D")
