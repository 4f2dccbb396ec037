"""Control groups of this process: the folders in which a container's limits stand."""

from collections.abc import Iterator
from pathlib import Path


def unified_folders(root: Path) -> Iterator[Path]:
    """Folders of version 2: this process's group and all around it. One that a container does not see under its name is
    the one at the top."""
    for controllers, name in _groups(root):
        if not controllers:
            yield from _up(root / "sys/fs/cgroup", name)


def controller_folders(root: Path, controller: str) -> Iterator[Path]:
    """Folders of one controller of version 1, see `unified_folders`."""
    for controllers, name in _groups(root):
        if controller in controllers.split(","):
            yield from _up(root / "sys/fs/cgroup" / controller, name)


def read_limit(path: Path) -> str:
    """Reads a file of a group. Returns nothing where there is no such file, or it may not be read."""
    try:
        return path.read_text(encoding="utf-8")
    except OSError:
        return ""


def _groups(root: Path) -> Iterator[tuple[str, str]]:
    for line in read_limit(root / "proc/self/cgroup").splitlines():
        _, controllers, name = line.split(":", 2)
        yield controllers, name


def _up(top: Path, name: str) -> Iterator[Path]:
    folder = top / name.lstrip("/")
    yield folder
    yield from (parent for parent in folder.parents if parent.is_relative_to(top))
