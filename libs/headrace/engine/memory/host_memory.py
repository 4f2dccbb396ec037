"""Memory that this process could still take: what the machine has left, within the limits of its control groups."""

import mmap
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from headrace.engine.memory.control_groups import controller_folders, read_limit, unified_folders

KIB = 1024


@dataclass(frozen=True, slots=True)
class _Group:
    """The files of a control group's memory."""

    folder: Path
    limit: str
    usage: str
    cache: str
    """Name of the line in `memory.stat` that counts memory that is reclaimed under pressure."""

    def room(self) -> int | None:
        """Returns the bytes below the group's limit. None where it has none."""
        limit, usage = (_first_word(self.folder / name) for name in (self.limit, self.usage))
        if not limit.isdigit() or not usage.isdigit():
            return None
        reclaimable = _table(self.folder / "memory.stat").get(self.cache, 0)
        return max(0, int(limit) - int(usage) + reclaimable)


def available_bytes(root: Path = Path("/")) -> int | None:
    """Bytes that are free or would be given up, for this process. None on a system that does not say."""
    machine = _table(root / "proc/meminfo").get("MemAvailable:")
    rooms = [group.room() for group in _groups(root)]
    found = [room for room in (None if machine is None else machine * KIB, *rooms) if room is not None]
    return min(found, default=None)


def resident_bytes(root: Path = Path("/")) -> int:
    """Returns the bytes of memory that this process holds. 0 on a system that does not say."""
    pages = read_limit(root / "proc/self/statm").split()
    return int(pages[1]) * mmap.PAGESIZE if pages else 0


def _groups(root: Path) -> Iterator[_Group]:
    """The control groups of this process with all around them, of version 2 and of version 1."""
    for folder in unified_folders(root):
        yield _Group(folder, "memory.max", "memory.current", "inactive_file")
    for folder in controller_folders(root, "memory"):
        yield _Group(folder, "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")


def _table(path: Path) -> dict[str, int]:
    """Reads lines of a name and a number."""
    rows = [line.split() for line in read_limit(path).splitlines()]
    return {row[0]: int(row[1]) for row in rows if len(row) > 1 and row[1].isdigit()}


def _first_word(path: Path) -> str:
    return (read_limit(path).split() or [""])[0]
