"""Bounds the work of untrusted code, by processor time and by memory."""

import resource
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType


class TimeSpent(BaseException):
    """Raised in work that took more processor time than it may. Not an Exception, so that the work cannot catch it by
    accident."""


@contextmanager
def bounded_work(seconds: float, byte_count: int) -> Iterator[None]:
    """Raises TimeSpent after `seconds` of processor time, and MemoryError beyond `byte_count` bytes more than in use.

    Works in the main thread only, as signals do. One call of a library that runs on without returning to Python is
    ended by neither: for that, the process has to be ended from outside.
    """
    before = signal.signal(signal.SIGPROF, _give_up)
    limits = resource.getrlimit(resource.RLIMIT_AS)
    try:
        if sys.platform == "linux":
            resource.setrlimit(resource.RLIMIT_AS, (_size() + byte_count, limits[1]))
        signal.setitimer(signal.ITIMER_PROF, seconds)
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        resource.setrlimit(resource.RLIMIT_AS, limits)
        signal.signal(signal.SIGPROF, before)


def _give_up(_signal: int, _frame: FrameType | None) -> None:
    raise TimeSpent


def _size() -> int:
    """Bytes of address space in use."""
    return int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
