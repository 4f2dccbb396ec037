"""Tells whether another process computes, or would if it were given a core."""

from pathlib import Path

BUSY_SHARE = 0.1
"""Smallest share of a core that a busy process uses or waits for; one with less is frozen."""


class ProcessActivity:
    """Counts the time for which a process has computed or waited for a core. A process that is gone has none."""

    def __init__(self, pid: int) -> None:
        # Imported here, because only a supervisor needs it: the command line also runs where it is not installed.
        import psutil

        self._psutil = psutil
        self._pid = pid
        self._tasks = Path("/proc", str(pid), "task")
        self._seconds = 0.0
        self.begin()

    def begin(self) -> None:
        """Starts counting from now."""
        self._seconds = self._wanted_seconds()

    def is_busy(self, seconds: float) -> bool:
        """Whether it wanted a core in the `seconds` since the beginning. A stopped process wants nothing."""
        psutil = self._psutil
        try:
            status = psutil.Process(self._pid).status()
        except psutil.Error:
            return False
        if status in (psutil.STATUS_STOPPED, psutil.STATUS_TRACING_STOP):
            return False
        # The wait of a thread is counted only once it gets a core: until then it is merely ready.
        is_due = any(map(_is_due, self._tasks.glob("*/stat")))
        return is_due or self._wanted_seconds() - self._seconds > BUSY_SHARE * seconds

    def _wanted_seconds(self) -> float:
        try:
            times = self._psutil.Process(self._pid).cpu_times()
        except self._psutil.Error:
            return 0.0
        return float(times.user + times.system) + sum(map(_delay_seconds, self._tasks.glob("*/schedstat")))


def _delay_seconds(schedstat: Path) -> float:
    """Returns the seconds for which a thread was ready to run and had no core; 0 where the system does not count
    them."""
    try:
        return int(schedstat.read_text().split()[1]) / 1e9
    except (OSError, IndexError):
        return 0.0


def _is_due(stat: Path) -> bool:
    """Whether a thread is ready to run, or waits for a disk."""
    try:
        return stat.read_text().rpartition(") ")[2][:1] in ("R", "D")
    except OSError:
        return False
