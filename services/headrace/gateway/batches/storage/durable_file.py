"""Files that are there whole or not at all, also after a loss of power."""

import contextlib
import os
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

MODE = 0o600
DRAFT = ".new"
"""Ending of the names of files that are not whole yet."""


@contextlib.contextmanager
def drafted(path: Path) -> Iterator[BinaryIO]:
    """Yields a file to write, which gets its name once it is on the disk. A block that fails leaves nothing behind.
    Raises OSError."""
    draft = path.with_name(f"{path.name}.{secrets.token_hex(4)}{DRAFT}")
    try:
        with open_new(draft) as file:
            yield file
            sync(file)
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)
    sync_folder(path.parent)


def write_whole(path: Path, content: bytes) -> None:
    """Replaces a file, or makes it. Raises OSError."""
    with drafted(path) as file:
        file.write(content)


def open_new(path: Path) -> BinaryIO:
    """Opens a file that only this user can read. Raises FileExistsError if it is there already."""
    return os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, MODE), "wb")


def sync(file: BinaryIO) -> None:
    """Returns when everything that was written is on the disk."""
    file.flush()
    os.fsync(file.fileno())


def sync_folder(path: Path) -> None:
    """Returns when the names of the files in a folder are on the disk."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
