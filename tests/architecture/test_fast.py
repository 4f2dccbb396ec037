"""Fast mode starts no process, whichever way a test tries."""

import asyncio
import contextlib
import multiprocessing
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from tests.fast import ProcessGuard, ProcessStarted

COMMAND = [sys.executable, "-c", ""]


def spawn(method: str) -> None:
    context: Any = multiprocessing.get_context(method)
    process = context.Process(target=os.getpid)
    process.start()
    process.join()


WAYS: dict[str, Callable[[], object]] = {
    "Popen": lambda: subprocess.run(COMMAND, check=True),
    "asyncio": lambda: asyncio.run(asyncio.create_subprocess_exec(*COMMAND)),
    "spawn": lambda: spawn("spawn"),
    "forkserver": lambda: spawn("forkserver"),
    "fork": lambda: spawn("fork"),
    "posix_spawn": lambda: os.posix_spawn(sys.executable, COMMAND, {}),
    "system": lambda: os.system("true"),
}


@pytest.fixture
def guard() -> Iterator[ProcessGuard]:
    with pytest.MonkeyPatch.context() as patch:
        made = ProcessGuard()
        made.forbid(patch)
        yield made


@pytest.mark.parametrize("way", WAYS)
def test_no_way_leads_into_another_process(guard: ProcessGuard, way: str) -> None:
    with pytest.raises(ProcessStarted, match=r"mark it with @pytest\.mark\.process"):
        WAYS[way]()


def test_an_attempt_is_told_although_its_error_was_swallowed(guard: ProcessGuard) -> None:
    guard.check()
    with contextlib.suppress(Exception):
        subprocess.run(COMMAND, check=True)
    with pytest.raises(ProcessStarted, match=r"Popen\.__init__"):
        guard.check()


def test_afterwards_processes_start_again() -> None:
    before = subprocess.Popen.__init__
    with pytest.MonkeyPatch.context() as patch:
        ProcessGuard().forbid(patch)
        assert subprocess.Popen.__init__ is not before
    assert subprocess.Popen.__init__ is before
