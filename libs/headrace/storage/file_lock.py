"""Lock of a file that several processes change: it ends with the process that holds it."""

import contextlib
import errno
import fcntl
import os
import time
from collections.abc import Iterator
from pathlib import Path

MODE = 0o600
LOCK_SECONDS = 10.0
LOCK_INTERVAL = 0.02


@contextlib.contextmanager
def locked(path: Path) -> Iterator[None]:
    """Holds the lock beside a file in a block, and makes the folder of the file if there is none. Raises OSError, as
    a TimeoutError when another process keeps the lock for long."""
    lock = path.with_name(f"{path.name}.lock")
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(lock, os.O_RDWR | os.O_CREAT, MODE)
    try:
        _acquire(descriptor, lock)
        yield
    finally:
        os.close(descriptor)


def _acquire(descriptor: int, path: Path) -> None:
    deadline = time.monotonic() + LOCK_SECONDS
    while True:
        with contextlib.suppress(BlockingIOError):
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        if time.monotonic() > deadline:
            held = f"another process has held it for {LOCK_SECONDS:g} s: try again when it has ended"
            raise TimeoutError(errno.ETIMEDOUT, held, str(path))
        time.sleep(LOCK_INTERVAL)
