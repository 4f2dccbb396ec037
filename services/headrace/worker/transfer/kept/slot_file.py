"""A file of equal slots, which one process has for itself."""

import fcntl
import os
from pathlib import Path
from typing import Self

from headrace.worker.transfer.kept.slot_header import EMPTY, HEADER_BYTES, SlotHeader

MODE = 0o600


class SlotFile:
    """Slots of a header and a block each. Every call may raise OSError. For one thread at a time."""

    def __init__(self, descriptor: int, block_bytes: int, slot_count: int) -> None:
        self._descriptor = descriptor
        self._block_bytes = block_bytes
        self.slot_count = slot_count

    @classmethod
    def open(cls, path: Path, block_bytes: int, slot_count: int) -> Self | None:
        """Opens or makes a file of `slot_count` slots, all of whose room is taken at once, so that a disk that fills up
        later takes nothing away. None: another process has it. Raises OSError."""
        descriptor = _locked(path)
        if descriptor is None:
            return None
        try:
            size = slot_count * (HEADER_BYTES + block_bytes)
            os.ftruncate(descriptor, size)
            os.posix_fallocate(descriptor, 0, size)
        except OSError:
            os.close(descriptor)
            raise
        return cls(descriptor, block_bytes, slot_count)

    @staticmethod
    def delete(path: Path) -> None:
        """Deletes a file, unless a process has it. Raises OSError."""
        descriptor = _locked(path)
        if descriptor is not None:
            path.unlink(missing_ok=True)
            os.close(descriptor)

    def names(self) -> dict[bytes, int]:
        """Returns the slot of each block that the headers name."""
        found = {}
        for slot in range(self.slot_count):
            header = SlotHeader.read(os.pread(self._descriptor, HEADER_BYTES, self._place(slot)))
            if header is not None:
                found[header.name] = slot
        return found

    def write(self, slot: int, header: SlotHeader, content: bytes) -> None:
        """Writes a block. Until all of it is there, the slot is empty."""
        place = self._place(slot)
        self._put(EMPTY, place)
        self._put(content, place + HEADER_BYTES)
        self._put(header.data(), place)

    def read(self, slot: int) -> tuple[SlotHeader | None, bytes]:
        """Reads a slot. The content may be shorter than a block where the file was cut."""
        data = os.pread(self._descriptor, HEADER_BYTES + self._block_bytes, self._place(slot))
        return SlotHeader.read(data[:HEADER_BYTES]), data[HEADER_BYTES:]

    def close(self) -> None:
        """Closes the file, which others may then open."""
        os.close(self._descriptor)

    def _place(self, slot: int) -> int:
        return slot * (HEADER_BYTES + self._block_bytes)

    def _put(self, data: bytes, place: int) -> None:
        written = os.pwrite(self._descriptor, data, place)
        if written != len(data):
            raise OSError(f"{written} of {len(data)} bytes were written")


def _locked(path: Path) -> int | None:
    """Opens or makes a file for this process alone. None: another one has it."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, MODE)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        return None
    return descriptor
