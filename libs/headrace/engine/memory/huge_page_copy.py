"""Moves weights that are mapped from a file into huge pages, while they are in use.

Mapped weights are there at once, but in pages of 4 KiB; decoding one sequence is some 6 to 10 % faster from huge ones,
except with weights that are read as one stream, which gain nothing. To copy them takes a virtual machine up to a second
and a half for half a gigabyte, because its host has to find the memory. So it is done beside the first requests, at the
lowest priority: on two busy cores, the first prefill would otherwise take a third longer.
"""

import contextlib
import logging
import os
import sys
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from headrace.engine.memory.aligned import Bytes, address, aligned, allocate
from headrace.engine.memory.host_memory import available_bytes
from headrace.engine.memory.mapped_file import MappedFile

LOWEST_PRIORITY = 19
"""Niceness of the thread: it takes the cores that are idle, and a hundredth of those that are not."""
LARGEST_SHARE = 0.5
"""Largest share of the free memory that a copy may take. Where it would take more, weights stay mapped."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Move:
    """One matrix that the kernels read."""

    source: Bytes
    point_at: Callable[[int], None]
    """Has the kernels read the matrix from another address from now on, also within a step: both places hold the
    same."""


class HugePageCopy:
    """Thread that moves matrices until all are moved."""

    def __init__(self, file: MappedFile, moves: Sequence[Move]) -> None:
        self._file = file
        self._moves = moves
        self._memory: Bytes | None = None
        self._thread = threading.Thread(target=self._run, name="huge-pages", daemon=True)
        self._thread.start()

    def wait(self, seconds: float) -> bool:
        """Waits for the copy. Returns whether it came to its end in time."""
        self._thread.join(seconds)
        return not self._thread.is_alive()

    def _run(self) -> None:
        _give_way()
        sizes = [aligned(move.source.nbytes) for move in self._moves]
        self._memory = _room(sum(sizes))
        if self._memory is None:
            _log.info("weights stay mapped: a copy in huge pages does not fit", extra={"bytes": sum(sizes)})
            return
        offset = 0
        for move, size in zip(self._moves, sizes, strict=True):
            copy = self._memory[offset : offset + move.source.nbytes]
            copy[:] = move.source
            move.point_at(address(copy))
            self._file.forget(move.source)
            offset += size


def _give_way() -> None:
    """Lowers the priority of this thread. Elsewhere than on Linux, it would be that of the process."""
    if sys.platform == "linux":
        with contextlib.suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), LOWEST_PRIORITY)


def _room(byte_count: int) -> Bytes | None:
    """Allocates memory for a copy, unless others need it more, or the system gives none."""
    free = available_bytes()
    if free is not None and byte_count > free * LARGEST_SHARE:
        return None
    try:
        return allocate(byte_count)
    except (OSError, MemoryError):
        return None
