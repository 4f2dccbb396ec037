"""Tests marked `alone` measure time: while one runs, the suite's other processes run none.

Every test of every process passes a gate and then stands in a room: many together, or one alone. Who waits for an
empty room holds the gate meanwhile, so that it does get empty. Tests that are alone and follow each other keep the room
to themselves: the others wait once instead of between any two. Fixtures of a wider scope, such as platforms, idle on.
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
        self._inside = ExitStack()
        self._is_inside = False

    def enter(self, *, alone: bool) -> None:
        """Waits for its turn, unless it is inside already."""
        if self._is_inside:
            return
        with locked(self._gate, fcntl.LOCK_EX):
            self._inside.enter_context(locked(self._room, fcntl.LOCK_EX if alone else fcntl.LOCK_SH))
        self._is_inside = True

    def leave(self) -> None:
        self._is_inside = False
        self._inside.close()


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


class Turns:
    """Takes each test of one of the suite's processes through the room."""

    def __init__(self, room: Room) -> None:
        self._room = room

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item, nextitem: pytest.Item | None) -> Iterator[None]:
        """Waits here, where a test's time limit does not count yet."""
        self._room.enter(alone=is_alone(item))
        try:
            return (yield)
        finally:
            if not (is_alone(item) and nextitem is not None and is_alone(nextitem)):
                self._room.leave()


def is_alone(item: pytest.Item) -> bool:
    return item.get_closest_marker("alone") is not None


def pytest_sessionstart(session: pytest.Session) -> None:
    if hasattr(session.config, "workerinput"):
        factory: pytest.TempPathFactory = session.config._tmp_path_factory  # type: ignore[attr-defined]
        session.config.pluginmanager.register(Turns(Room(factory.getbasetemp().parent)))
