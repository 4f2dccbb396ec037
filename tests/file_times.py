"""Seconds that each file of tests takes: a closing table beside the bound that `tests/file_bounds.json` names for it.

Processor time stands beside elapsed time, because it hardly depends on what else the machine does. It includes that of
processes which a test started and waited for. A clock fails no test: a file beyond its bound is reported. All files are
in `build/file_times.json`, and a run's slowest on a page of docs/results.
"""

import json
import os
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest
from rich import box
from rich.console import Console
from rich.table import Table

BOUNDS = Path("tests/file_bounds.json")
USUAL = "every other file"
"""Name of the bound for files without one."""
FILE = Path("build/file_times.json")
ROW_COUNT = 15
PROCESSOR_SECONDS = "processor_seconds"
"""Name of the property that a test's last report carries to the process that adds up."""
MIN_FILES = 100
"""A run of fewer files, such as those of one folder, is not measured against bounds for whole runs."""


class FileTimes:
    """Adds up what all processes of the suite report."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._seconds: dict[str, float] = defaultdict(float)
        self._processor: dict[str, float] = defaultdict(float)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        name = report.nodeid.partition("::")[0]
        self._seconds[name] += report.duration
        self._processor[name] += sum(
            value for key, value in report.user_properties if key == PROCESSOR_SECONDS and isinstance(value, float)
        )

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if len(self._seconds) < MIN_FILES:
            return
        bounds = read_bounds(self._root)
        self.write()
        total, processor = sum(self._seconds.values()), sum(self._processor.values())
        title = f"Seconds by file, {total:.0f} in all, of the processor {processor:.0f} ({FILE})"
        terminalreporter.write_sep("=", title)
        console = Console(width=100, color_system=None, markup=False, highlight=False)
        with console.capture() as capture:
            console.print(make_table(self._seconds, self._processor, bounds))
        terminalreporter.write(capture.get())
        terminalreporter.write_line(verdict(self._seconds, bounds))

    def write(self) -> None:
        """Leaves the seconds of all files, the slowest first."""
        path = self._root / FILE
        path.parent.mkdir(exist_ok=True)
        seconds = {
            name: {"elapsed": round(self._seconds[name], 1), "processor": round(self._processor[name], 1)}
            for name in slowest(self._seconds)
        }
        path.write_text(json.dumps(seconds, indent=0))


class ProcessorTimes:
    """Adds the processor time of a test and of what ran with it to its last report."""

    def __init__(self) -> None:
        self._before = 0.0

    def pytest_collection_finish(self) -> None:
        self._before = processor_seconds()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self) -> Iterator[None]:
        report: pytest.TestReport = yield  # type: ignore[assignment]
        if report.when == "teardown":
            now = processor_seconds()
            report.user_properties.append((PROCESSOR_SECONDS, now - self._before))
            self._before = now
        return report  # type: ignore[return-value]


def processor_seconds() -> float:
    """Processor time of this process and of the processes that it waited for, theirs included. So is what its fork
    server has waited for: it forks the platforms."""
    harness = sys.modules.get("tests.harness.forked_up")
    forks = harness.forked_processor_seconds() if harness else 0.0
    times = os.times()
    return forks + times.user + times.system + times.children_user + times.children_system


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(ProcessorTimes())
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(FileTimes(config.rootpath))


def read_bounds(root: Path) -> dict[str, float]:
    return dict(json.loads((root / BOUNDS).read_text()))


def read_times(root: Path) -> dict[str, dict[str, float]]:
    """Elapsed and processor seconds of each file in the last whole run."""
    return dict(json.loads((root / FILE).read_text()))


def slowest(seconds: dict[str, float]) -> list[str]:
    """Names of all files, the slowest first."""
    return sorted(seconds, key=lambda name: -seconds[name])


def bound_of(name: str, bounds: dict[str, float]) -> float:
    return bounds.get(name, bounds[USUAL])


def beyond(seconds: dict[str, float], bounds: dict[str, float]) -> list[str]:
    """Names of the files that took longer than their bound, the slowest first."""
    return [name for name in slowest(seconds) if seconds[name] > bound_of(name, bounds)]


def make_table(seconds: dict[str, float], processor: dict[str, float], bounds: dict[str, float]) -> Table:
    """The slowest files, and whichever else is beyond its bound."""
    table = Table(box=box.SIMPLE_HEAD)
    for column in ("Seconds", "Bound", "Processor", "File"):
        table.add_column(column, justify="left" if column == "File" else "right", overflow="fold")
    late = beyond(seconds, bounds)
    shown = slowest(seconds)[:ROW_COUNT]
    for name in [*shown, *(each for each in late if each not in shown)]:
        mark = " beyond its bound" if name in late else ""
        times = (seconds[name], bound_of(name, bounds), processor.get(name, 0.0))
        table.add_row(*(f"{time:.0f}" for time in times), f"{name}{mark}")
    return table


def verdict(seconds: dict[str, float], bounds: dict[str, float]) -> str:
    late = beyond(seconds, bounds)
    if not late:
        return "Every file kept within its bound."
    return (
        f"{len(late)} of {len(seconds)} files took longer than their bounds: the machine is busy, or a change made "
        f"them slow. Make them quicker, or give the reason in a new bound ({BOUNDS})."
    )
