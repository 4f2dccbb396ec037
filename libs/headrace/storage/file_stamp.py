"""FileStamp, which tells one version of a file from the next."""

from pathlib import Path
from typing import NamedTuple


class FileStamp(NamedTuple):
    """Facts about a file that differ as soon as it is replaced or written."""

    number: int
    time_ns: int
    size: int

    @classmethod
    def of(cls, path: Path) -> "FileStamp | None":
        """Returns the stamp of a file. None: it cannot be found."""
        try:
            found = path.stat()
        except OSError:
            return None
        return cls(found.st_ino, found.st_mtime_ns, found.st_size)
