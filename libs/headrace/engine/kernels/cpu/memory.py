"""Memory for what is read in every step."""

import ctypes
import mmap

import torch
from torch import Tensor

HUGE_PAGE = 2 << 20


def allocate(byte_count: int) -> Tensor:
    """uint8 [byte_count] of zeros, in huge pages where the system has them: fewer pages are fewer misses in the
    processor's table of pages. Large blocks only: small ones would waste what is left of their last page."""
    if byte_count < HUGE_PAGE or not hasattr(mmap, "MADV_HUGEPAGE"):
        return torch.zeros(byte_count, dtype=torch.uint8)
    # Shared memory, which is what Python would take, has huge pages only where the administrator said so.
    area = mmap.mmap(-1, byte_count + HUGE_PAGE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    area.madvise(mmap.MADV_HUGEPAGE)
    whole = torch.frombuffer(area, dtype=torch.uint8)
    start = -whole.data_ptr() % HUGE_PAGE
    return whole[start : start + byte_count]


def give_back_freed() -> None:
    """Has the C library return to the system what was freed: loading takes a multiple of what is left in the end."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)
