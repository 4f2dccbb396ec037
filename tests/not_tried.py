"""A closing table of the tests that were skipped: which, why, and what would make them run.

A reason reads "what is missing; to run it: what to do". A test in tests/architecture holds all of them to it.
"""

from collections import Counter
from typing import NamedTuple

import pytest
from rich import box
from rich.console import Console
from rich.table import Table

SEPARATOR = "; to run it: "
PREFIX = "Skipped: "
MIN_WIDTH = 100
"""Logs that are not terminals say 80."""


class Skip(NamedTuple):
    """One skipped test, or the tests of a whole file."""

    test: str
    why: str
    remedy: str


def read_skip(report: pytest.TestReport | pytest.CollectReport) -> Skip:
    """Reads the report of a skipped test."""
    longrepr = report.longrepr
    reason = str(longrepr[2] if isinstance(longrepr, tuple) else longrepr).removeprefix(PREFIX)
    why, _, remedy = reason.partition(SEPARATOR)
    return Skip(shorten(report.nodeid), why, remedy or "the reason does not say")


def shorten(nodeid: str) -> str:
    """The file's name and the function's: neither folders nor parameters."""
    path, _, function = nodeid.partition("::")
    name = path.rpartition("/")[2]
    return f"{name}\n  {function.partition('[')[0]}" if function else name


def make_table(skips: list[Skip]) -> Table:
    """A row for each reason, the most frequent first."""
    table = Table(box=box.SIMPLE_HEAD, expand=True, show_lines=True)
    table.add_column("Tests", justify="right")
    table.add_column("Which", ratio=1, overflow="fold")
    table.add_column("Why not, and what makes them run", ratio=1, overflow="fold")
    reasons = Counter((skip.why, skip.remedy) for skip in skips)
    for (why, remedy), count in reasons.most_common():
        tests = Counter(skip.test for skip in skips if (skip.why, skip.remedy) == (why, remedy))
        names = [name if times == 1 else f"{name} ×{times}" for name, times in tests.items()]
        table.add_row(str(count), "\n".join(names), f"{why}\n→ {remedy}")
    return table


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Prints the table. With several processes, this one receives the reports of all tests."""
    skips = [read_skip(report) for report in terminalreporter.stats.get("skipped", [])]
    if not skips:
        terminalreporter.write_sep("=", "Not tried here: nothing was skipped")
        return
    terminalreporter.write_sep("=", "Not tried here")
    width = max(MIN_WIDTH, terminalreporter._tw.fullwidth)
    console = Console(width=width, color_system=None, markup=False, highlight=False)
    with console.capture() as capture:
        console.print(make_table(skips))
    terminalreporter.write(capture.get())
