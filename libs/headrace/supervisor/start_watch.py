"""Watches a start: what the processes say of their progress, and whether any still makes some."""

import asyncio
import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from headrace.supervisor.process import SupervisedProcess
from headrace.supervisor.process_activity import ProcessActivity

LOOK_INTERVAL = 0.25
"""Seconds between looks."""
ACTIVITY_SECONDS = 1.0
"""Seconds over which a process must have wanted a core to count as busy."""
TAIL_BYTES = 4096
"""Bytes at the end of a log that are searched for the last report."""


@dataclass(slots=True)
class _Start:
    """Start of one process, by its pid."""

    activity: ProcessActivity
    since: float = field(default_factory=time.monotonic)


class StartWatch:
    """Tells when a start makes no progress any more: no process computes, and none reports that it got further.

    A process that ended and is started again makes none: it might do so forever."""

    def __init__(self, processes: Callable[[], Sequence[SupervisedProcess]], on_progress: Callable[[], None]) -> None:
        self._processes = processes
        self._on_progress = on_progress
        self._starts: dict[int, _Start] = {}

    async def until_silent(self, silence_seconds: float) -> list[SupervisedProcess]:
        """Returns the processes that are not ready, once none of them has made progress for `silence_seconds`."""
        progressed = time.monotonic()
        while time.monotonic() - progressed < silence_seconds:
            await asyncio.sleep(LOOK_INTERVAL)
            waiting = [process for process in self._processes() if not process.ready.is_set()]
            # Not any(): each must be looked at.
            if sum(map(self._has_progressed, waiting)):
                progressed = time.monotonic()
        return [process for process in self._processes() if not process.ready.is_set()]

    def _has_progressed(self, process: SupervisedProcess) -> bool:
        if process.pid is None or process.restarts:
            return False
        report = _last_report(process)
        if report != process.progress:
            process.progress = report
            self._on_progress()
            return True
        start = self._starts.setdefault(process.pid, _Start(ProcessActivity(process.pid)))
        elapsed = time.monotonic() - start.since
        if elapsed < ACTIVITY_SECONDS:
            return False
        is_busy = start.activity.is_busy(elapsed)
        self._starts[process.pid] = _Start(start.activity)
        start.activity.begin()
        return is_busy


def _last_report(process: SupervisedProcess) -> str:
    """Returns the last progress that a process logged, such as "packing weights 40 %"; empty before the first."""
    try:
        with process.spec.log_path.open("rb") as log:
            log.seek(max(0, log.seek(0, 2) - TAIL_BYTES))
            lines = log.read().splitlines()
    except OSError:
        return process.progress
    for line in reversed(lines):
        try:
            entry = json.loads(line)
            return f"{entry['message']} {100 * int(entry['done']) // int(entry['total'])} %"
        except (ValueError, KeyError, TypeError, ZeroDivisionError):
            continue
    return process.progress
