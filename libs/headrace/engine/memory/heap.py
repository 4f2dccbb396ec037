"""Heap of the C library: memory that it holds from the system, and how much of it is unused."""

import ctypes


class _Info(ctypes.Structure):
    """Result of mallinfo2, as in glibc's malloc.h."""

    _fields_ = [
        (name, ctypes.c_size_t)
        for name in (
            "arena",
            "ordblks",
            "smblks",
            "hblks",
            "hblkhd",
            "usmblks",
            "fsmblks",
            "uordblks",
            "fordblks",
            "keepcost",
        )
    ]


def free_heap_bytes() -> int:
    """Returns the free bytes in the heap, between used ones: fragmentation. 0 where the C library does not say."""
    query = getattr(ctypes.CDLL(None), "mallinfo2", None)
    if query is None:
        return 0
    query.restype = _Info
    return int(query().fordblks)
