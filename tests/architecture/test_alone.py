"""Tests that measure time have the machine to themselves, as far as the suite is concerned."""

import fcntl
import time
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path

from tests.alone import Room


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
        with Room(tmp_path).enter(alone=alone):
            order.append(name)

    with ThreadPoolExecutor(3) as pool:
        with Room(tmp_path).enter(alone=False):
            pool.submit(visit, "together", False).result(10)
            first = pool.submit(visit, "alone", True)
            deadline = time.monotonic() + 10
            while not is_locked(tmp_path / "gate.lock"):
                assert time.monotonic() < deadline
                time.sleep(0.01)
            second = pool.submit(visit, "late", False)
            assert not wait([first, second], timeout=0.2).done
        wait([first, second], timeout=10)
    assert order == ["together", "alone", "late"]
