"""Space that is left for files and batches."""

import os
from dataclasses import dataclass
from pathlib import Path

from prometheus_client import Gauge

MIN_BYTES = 1024 * 1024
"""Bytes below which a disk counts as full: a record may still be written, and no file."""
FREE = Gauge("headrace_files_free_bytes", "Bytes that are free on the disk of files and batches")


@dataclass(frozen=True, slots=True)
class FreeSpace:
    """Watches the disk of a folder."""

    folder: Path

    def measure(self) -> int:
        """Returns the bytes that are free, and shows them as a metric. Raises OSError."""
        status = os.statvfs(self.folder)
        free = status.f_bavail * status.f_frsize
        FREE.set(free)
        return free

    def report(self) -> str:
        """Says, for people, whether there is room."""
        try:
            free = self.measure()
        except OSError as error:
            return f"not ready: {error.strerror}"
        return "ready" if free >= MIN_BYTES else f"full: {free} bytes are free"
