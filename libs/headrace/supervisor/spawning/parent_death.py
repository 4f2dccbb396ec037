"""Ties of processes to their ancestors, where the system has them (prctl of Linux)."""

import ctypes
import signal
import sys

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_libc = ctypes.CDLL(None) if sys.platform == "linux" else None


def die_with_parent() -> None:
    """Has this process killed when its parent ends, so that a killed supervisor leaves no orphans."""
    if _libc is not None:
        _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def adopt_orphans() -> bool:
    """Makes this process the parent of each descendant that loses its own. Returns whether the system can."""
    return _libc is not None and _libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0
