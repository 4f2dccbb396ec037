"""Ends of processes that are no children of the tests' own."""

import time
from collections.abc import Iterable

import psutil

LOOK_SECONDS = 0.01


def wait_ended(processes: Iterable[psutil.Process], seconds: float) -> list[psutil.Process]:
    """Waits until the processes have ended, for `seconds` at most, and returns the ones still running.

    One that ended but whose parent has not asked for its exit status has ended too: orphans wait a second or more until
    the first process of some machines asks, and `psutil.wait_procs` waits with them."""
    deadline = time.monotonic() + seconds
    left = [process for process in processes if _runs(process)]
    while left and time.monotonic() < deadline:
        time.sleep(LOOK_SECONDS)
        left = [process for process in left if _runs(process)]
    return left


def _runs(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
