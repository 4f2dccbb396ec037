"""Files on disk that cannot be read as what they are: passed over, logged once, and counted."""

import logging
from pathlib import Path

import msgspec
from prometheus_client import Counter

UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, ValueError, IsADirectoryError, NotADirectoryError)
"""Errors of reading a file that is damaged, or that has been replaced by another."""
DAMAGED = Counter("headrace_damaged_records", "Records of files and batches that cannot be read", ["kind"])

_log = logging.getLogger(__name__)


class Damage:
    """Remembers which records are damaged."""

    def __init__(self) -> None:
        self._known = set[Path]()

    def note(self, kind: str, path: Path, error: Exception) -> None:
        """Tells the operator of a damaged record, unless that was done before."""
        if path not in self._known:
            self._known.add(path)
            DAMAGED.labels(kind).inc()
            _log.error("a record is damaged and passed over", extra={"path": str(path), "error": str(error)})
