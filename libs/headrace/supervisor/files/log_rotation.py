"""Keeps the logs of services from filling the disk."""

import asyncio
import shutil
from collections.abc import Iterable
from pathlib import Path

MAX_LOG_BYTES = 16 << 20
"""Size at which a log is set aside. With the old one it takes twice as much at most, and what is written meanwhile."""
ROTATION_INTERVAL = 5.0
"""Seconds between looks."""
OLD_SUFFIX = ".1"


def old_log(path: Path) -> Path:
    """Returns the path of the old log that is kept beside a log."""
    return path.with_name(path.name + OLD_SUFFIX)


def rotate(path: Path, max_bytes: int = MAX_LOG_BYTES) -> bool:
    """Copies a log that has grown too large to the old one, and empties it. Returns whether it did.

    The process that writes it keeps its file, opened for appending: so the next line goes to the beginning."""
    try:
        if path.stat().st_size <= max_bytes:
            return False
        shutil.copyfile(path, old_log(path))
        with path.open("r+b") as log:
            log.truncate(0)
    except OSError:
        return False
    return True


async def keep_rotating(paths: Iterable[Path]) -> None:
    """Rotates logs until it is cancelled."""
    watched = list(paths)
    while True:
        await asyncio.sleep(ROTATION_INTERVAL)
        for path in watched:
            await asyncio.to_thread(rotate, path)
