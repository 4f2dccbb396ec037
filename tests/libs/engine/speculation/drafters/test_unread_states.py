"""States are read once, in order, and those of wrong draft tokens never."""

import random

import numpy as np
from numpy.typing import NDArray

from headrace.engine.speculation.drafters.unread_states import UnreadStates


def rows(*numbers: int) -> NDArray[np.float32]:
    return np.array(numbers, np.float32)[:, None]


def test_random_steps_leave_the_last_states_of_each_position() -> None:
    source = random.Random(1)
    for _ in range(200):
        unread, known = UnreadStates(5), dict[int, int]()
        for step in range(30):
            position, count = source.randint(3, unread.end), source.randint(1, 4)
            numbers = [100 * step + index for index in range(count)]
            unread.put(position, rows(*numbers))
            known = {at: number for at, number in known.items() if at < position}
            known |= {position + index: number for index, number in enumerate(numbers)}
            known = {at: number for at, number in known.items() if at >= unread.start}
            assert (unread.start + len(known)) == unread.end
            if known and source.random() < 0.4:
                end = source.randint(unread.start + 1, unread.end)
                taken = unread.take(end)[:, 0].tolist()
                assert taken == [known.pop(at) for at in range(end - len(taken), end)]


def test_states_are_copied() -> None:
    unread, memory = UnreadStates(0), rows(1, 2)
    unread.put(0, memory)
    memory[:] = 0
    assert unread.take(1)[:, 0].tolist() == [1]
    assert (unread.start, unread.end) == (1, 2)
