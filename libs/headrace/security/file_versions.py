"""Versions of files that others replace while a service runs."""

import contextlib
from collections.abc import Iterable
from pathlib import Path


def file_versions(paths: Iterable[Path]) -> tuple[int, ...]:
    """Returns when each file was changed last, in nanoseconds; 0 for one that is not there."""
    return tuple(_changed(path) for path in paths)


def _changed(path: Path) -> int:
    with contextlib.suppress(OSError):
        return path.stat().st_mtime_ns
    return 0
