"""Files that only the user of the platform can read: they hold prompts, answers and secrets."""

import contextlib
import os
import stat
from pathlib import Path

OTHERS = 0o077
"""Permissions of all but the user."""


def keep_files_private() -> None:
    """Has this process, and its children, make files and folders that only the user can open."""
    os.umask(OTHERS)


def close_to_others(path: Path) -> None:
    """Closes a file or folder to all others, where an earlier version or another program left it open. A folder that
    many users share, such as /tmp, stays as it is, and so does what belongs to others."""
    with contextlib.suppress(OSError):
        status = path.lstat()
        is_own = status.st_uid == os.geteuid() and not stat.S_ISLNK(status.st_mode)
        if is_own and status.st_mode & OTHERS and not status.st_mode & stat.S_ISVTX:
            path.chmod(stat.S_IMODE(status.st_mode) & ~OTHERS)


def close_all_to_others(folder: Path) -> None:
    """Closes a folder and all in it."""
    for path in (folder, *folder.rglob("*")):
        close_to_others(path)
