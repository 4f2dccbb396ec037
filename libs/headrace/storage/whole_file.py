"""Files that are there whole or not at all.

A file is written under another name beside its place and then renamed, which POSIX makes atomic: a reader sees the old
content or the new. A durable one is on the disk before it gets its name, so that a loss of power cannot cut it short.
"""

import contextlib
import os
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

PRIVATE = 0o600
"""Permissions of a file that only this user can read."""
SHARED = 0o666
"""Permissions of a file that others may read and write, as far as the process's umask lets them."""
DRAFT = ".new"
"""Ending of the names of files that are not whole yet."""


@contextlib.contextmanager
def drafted(path: Path, *, mode: int = PRIVATE, durable: bool = True) -> Iterator[BinaryIO]:
    """Yields a file to write, which replaces `path` when the block ends. A block that fails leaves nothing behind.
    The file never has wider permissions than `mode`. Raises OSError."""
    draft = path.with_name(f"{path.name}.{secrets.token_hex(4)}{DRAFT}")
    try:
        with open_new(draft, mode) as file:
            yield file
            if durable:
                sync(file)
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)
    if durable:
        sync_folder(path.parent)


def write_whole(path: Path, content: bytes | str, *, mode: int = PRIVATE, durable: bool = True) -> None:
    """Replaces a file, or makes it. Text is written as UTF-8. Raises OSError."""
    with drafted(path, mode=mode, durable=durable) as file:
        file.write(content.encode() if isinstance(content, str) else content)


def open_new(path: Path, mode: int = PRIVATE) -> BinaryIO:
    """Opens a file for writing. Raises FileExistsError if it is there already."""
    return os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb")


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
