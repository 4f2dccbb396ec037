"""Threads that share a device take turns, one step at a time."""

import threading
import time

from headrace.engine.residency.step_turn import StepTurn

PATIENCE = 20.0


def test_first_come_first_served() -> None:
    """One that had its turn stands at the end of the line again."""
    turn, served = StepTurn(), list[int]()
    in_line = 0

    def work(number: int) -> None:
        for _ in range(3):
            with turn.taken(PATIENCE) as is_ours:
                assert is_ours
                served.append(number)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(3)]
    with turn.taken(PATIENCE):
        for thread in threads:
            thread.start()
            in_line += 1
            deadline = time.monotonic() + PATIENCE
            while len(turn) <= in_line:
                assert time.monotonic() < deadline
                time.sleep(0.001)
    for thread in threads:
        thread.join(PATIENCE)
    assert served[:3] == [0, 1, 2]
    assert sorted(served) == [0, 0, 0, 1, 1, 1, 2, 2, 2]


def test_a_turn_that_does_not_come_is_given_up() -> None:
    turn = StepTurn()
    with turn.taken(PATIENCE) as first, turn.taken(0.01) as second:
        assert (first, second) == (True, False)
    with turn.taken(0.01) as third:
        assert third
