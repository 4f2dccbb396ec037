"""Ties of processes to their ancestors, where the system has them (prctl of Linux)."""

import ctypes
import signal
import sys

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_PR_GET_CHILD_SUBREAPER = 37
_libc = ctypes.CDLL(None) if sys.platform == "linux" else None


def die_with_parent() -> None:
    """Has this process killed when its parent ends, so that a killed supervisor leaves no orphans."""
    if _libc is not None:
        _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def adopt_orphans(wanted: bool = True) -> bool:
    """Makes this process the parent of each descendant that loses its own, or ends that. False: the system cannot."""
    return _libc is not None and _libc.prctl(_PR_SET_CHILD_SUBREAPER, int(wanted), 0, 0, 0) == 0


def adopts_orphans() -> bool:
    """Whether this process is the parent of each descendant that loses its own."""
    adopts = ctypes.c_int(0)
    return (
        _libc is not None
        and _libc.prctl(_PR_GET_CHILD_SUBREAPER, ctypes.byref(adopts), 0, 0, 0) == 0
        and bool(adopts.value)
    )
