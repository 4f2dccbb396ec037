"""Memory for data that every step reads."""

import contextlib
import ctypes
import mmap

import numpy as np
from numpy.typing import NDArray

HUGE_PAGE = 2 << 20
ALIGNMENT = 64
"""Bytes of a cache line: arrays begin on multiples of it."""

Bytes = NDArray[np.uint8]


def allocate(byte_count: int) -> Bytes:
    """Allocates [byte_count] zeros, in huge pages where the system has them: fewer pages are fewer TLB
    misses. Only for large arrays: small ones would waste most of a page."""
    if byte_count < HUGE_PAGE or not hasattr(mmap, "MADV_HUGEPAGE"):
        return np.zeros(byte_count, np.uint8)
    # Shared memory, which is what Python would take, has huge pages only where the administrator said so.
    area = mmap.mmap(-1, byte_count + HUGE_PAGE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    # Kernels without huge pages refuse the advice, whatever headers Python was built with.
    with contextlib.suppress(OSError):
        area.madvise(mmap.MADV_HUGEPAGE)
    whole = np.frombuffer(area, np.uint8)
    start = -address(whole) % HUGE_PAGE
    return whole[start : start + byte_count]


def aligned(byte_count: int) -> int:
    """Rounds `byte_count` up, so that what follows begins on a boundary of `ALIGNMENT`."""
    return -(-byte_count // ALIGNMENT) * ALIGNMENT


def address(array: NDArray[np.generic]) -> int:
    """Returns the address of a contiguous array's data."""
    place: int = array.__array_interface__["data"][0]
    return place


def give_back_freed() -> None:
    """Has the C library return freed memory to the system: loading takes several times what a model holds."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)
