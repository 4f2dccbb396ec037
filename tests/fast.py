"""Fast mode of the suite, `pytest --fast`: tests that need neither a process of their own nor long.

It leaves out what is marked `process`, `slow`, `alone`, `gpu` or `emulated`, and fails each of the others that starts
a process.
"""

import multiprocessing.util
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NoReturn

import pytest

LEFT_OUT = frozenset({"process", "slow", "alone", "gpu", "emulated"})
WITH_PROCESSES = frozenset({"e2e", "faults", "soak"})
"""Folders of tests each of which may start processes."""
STARTERS: tuple[tuple[Any, str], ...] = (
    (subprocess.Popen, "__init__"),
    (multiprocessing.util, "spawnv_passfds"),
    *((os, name) for name in ("fork", "forkpty", "posix_spawn", "posix_spawnp", "system")),
)
"""All ways into another process: `asyncio` takes Popen, `multiprocessing` takes fork or spawnv_passfds."""


GUARD = pytest.StashKey["ProcessGuard"]()


class ProcessStarted(AssertionError):
    """A test of fast mode started a process."""


class ProcessGuard:
    """Forbids processes while it is entered, and remembers attempts: whoever made one may swallow the error."""

    def __init__(self) -> None:
        self.attempts: list[str] = []

    def forbid(self, patch: pytest.MonkeyPatch) -> None:
        """Makes every way into another process raise ProcessStarted."""
        for owner, name in STARTERS:
            patch.setattr(owner, name, self._refuse(f"{getattr(owner, '__name__', owner)}.{name}"))

    def check(self) -> None:
        """Raises ProcessStarted if there was an attempt."""
        if self.attempts:
            raise ProcessStarted(explain(self.attempts[0]))

    def _refuse(self, way: str) -> Any:
        def refuse(*_arguments: Any, **_options: Any) -> NoReturn:
            self.attempts.append(way)
            raise ProcessStarted(explain(way))

        return refuse


def explain(way: str) -> str:
    return (
        f"the test starts a process through {way}, which fast mode has no time for; "
        "mark it with @pytest.mark.process, or let it do without"
    )


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--fast",
        action="store_true",
        help=f"leave out tests marked {', '.join(sorted(LEFT_OUT))}, and fail those that start a process",
    )


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Folders of nothing but processes are not even imported in fast mode."""
    needs_processes = collection_path.parent.name == "tests" and collection_path.name in WITH_PROCESSES
    return True if needs_processes and is_fast(config) else None


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    for item in items:
        if WITH_PROCESSES.intersection(item.path.relative_to(config.rootpath).parts[:2]):
            item.add_marker("process")
    if is_fast(config):
        left_out = [item for item in items if any(item.get_closest_marker(name) for name in LEFT_OUT)]
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item not in set(left_out)]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """Guards setup and teardown too: fixtures start processes as well as tests do."""
    if not is_fast(item.config):
        return (yield)
    guard = ProcessGuard()
    item.stash[GUARD] = guard
    with pytest.MonkeyPatch.context() as patch:
        guard.forbid(patch)
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    yield
    if (guard := item.stash.get(GUARD, None)) is not None:
        guard.check()


def is_fast(config: pytest.Config) -> bool:
    return bool(config.getoption("fast"))
