"""A file as memory: there at once, read when it is touched, and shared by all processes that map it."""

import contextlib
import mmap
from typing import BinaryIO

import numpy as np

from headrace.engine.memory.aligned import Bytes, address


class MappedFile:
    """Read only. Stays valid when the file is replaced or removed."""

    def __init__(self, file: BinaryIO) -> None:
        """Raises OSError or ValueError where it cannot be mapped."""
        self._map = mmap.mmap(file.fileno(), 0, flags=mmap.MAP_PRIVATE, prot=mmap.PROT_READ)
        self.bytes: Bytes = np.frombuffer(self._map, np.uint8)

    def expect(self, part: Bytes) -> None:
        """Has the system read a part from the disk, if it is not in memory, without waiting for it."""
        self._advise("MADV_WILLNEED", part)

    def forget(self, part: Bytes) -> None:
        """Takes a part out of this process's memory. Reading it again brings it back."""
        self._advise("MADV_DONTNEED", part)

    def _advise(self, name: str, part: Bytes) -> None:
        begin = address(part) - address(self.bytes)
        first = -(-begin // mmap.PAGESIZE) * mmap.PAGESIZE
        length = (begin + part.nbytes) // mmap.PAGESIZE * mmap.PAGESIZE - first
        if length > 0 and hasattr(mmap, name):
            # A system that refuses advice has the same bytes, only later or in more memory.
            with contextlib.suppress(OSError):
                self._map.madvise(getattr(mmap, name), first, length)
