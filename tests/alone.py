"""Tests marked `alone` measure time: while one runs, the suite's other processes run none.

Every test of every process passes a gate and then stands in a room: many together, or one alone. Who waits for an
empty room holds the gate meanwhile, so that it does get empty. Fixtures of a wider scope, such as platforms, idle on.
"""

import fcntl
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest


class Room:
    """Locks that the suite's processes share, in the folder of their temporary files."""

    def __init__(self, folder: Path) -> None:
        self._gate, self._room = folder / "gate.lock", folder / "room.lock"

    @contextmanager
    def enter(self, *, alone: bool) -> Iterator[None]:
        """Waits for its turn."""
        with ExitStack() as inside:
            with locked(self._gate, fcntl.LOCK_EX):
                inside.enter_context(locked(self._room, fcntl.LOCK_EX if alone else fcntl.LOCK_SH))
            yield


@contextmanager
def locked(path: Path, kind: int) -> Iterator[None]:
    """A lock that ends with its process, whatever becomes of that. It is given back in words: a forked child of a test
    may still hold the file."""
    with path.open("a") as file:
        fcntl.flock(file, kind)
        try:
            yield
        finally:
            fcntl.flock(file, fcntl.LOCK_UN)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """Waits here, where a test's time limit does not count yet."""
    if not hasattr(item.config, "workerinput"):
        return (yield)
    factory: pytest.TempPathFactory = item.config._tmp_path_factory  # type: ignore[attr-defined]
    folder = factory.getbasetemp().parent
    with Room(folder).enter(alone=item.get_closest_marker("alone") is not None):
        return (yield)
