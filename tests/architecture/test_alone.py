"""Tests that measure time have the machine to themselves, as far as the suite is concerned."""

import fcntl
import time
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from tests.alone import Room, Turns


def is_locked(path: Path) -> bool:
    with path.open("a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        return False


def test_who_wants_to_be_alone_waits_for_the_others_and_holds_up_those_that_come_later(tmp_path: Path) -> None:
    order: list[str] = []

    def visit(name: str, alone: bool) -> None:
        room = Room(tmp_path)
        room.enter(alone=alone)
        order.append(name)
        room.leave()

    with ThreadPoolExecutor(3) as pool:
        room = Room(tmp_path)
        room.enter(alone=False)
        pool.submit(visit, "together", False).result(10)
        first = pool.submit(visit, "alone", True)
        deadline = time.monotonic() + 10
        while not is_locked(tmp_path / "gate.lock"):
            assert time.monotonic() < deadline
            time.sleep(0.01)
        second = pool.submit(visit, "late", False)
        assert not wait([first, second], timeout=0.2).done
        room.leave()
        wait([first, second], timeout=10)
    assert order == ["together", "alone", "late"]


def test_tests_that_are_alone_and_follow_each_other_keep_the_room(tmp_path: Path) -> None:
    turns = Turns(Room(tmp_path))

    def item(*marks: str) -> Any:
        return SimpleNamespace(get_closest_marker=lambda name: name if name in marks else None)

    alone, usual = item("alone"), item()
    for each, following, is_kept in ((usual, alone, False), (alone, alone, True), (alone, usual, False)):
        turn = turns.pytest_runtest_protocol(each, following)
        next(turn)
        assert is_locked(tmp_path / "room.lock")
        assert next(turn, None) is None
        assert is_locked(tmp_path / "room.lock") == is_kept
