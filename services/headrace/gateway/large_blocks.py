"""Memory of large bodies goes back to the system as soon as it is free."""

import ctypes
import sys

LARGE_BYTES = 512 * 1024
_M_MMAP_THRESHOLD = -3
"""Parameter of mallopt(3)."""


def return_large_blocks() -> None:
    """Has the C library map each large block separately. It would keep them in its heap once a first one was freed, and
    the process as large as the bodies that it held at once."""
    if sys.platform == "linux":
        mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
        if mallopt is not None:
            mallopt(_M_MMAP_THRESHOLD, LARGE_BYTES)
