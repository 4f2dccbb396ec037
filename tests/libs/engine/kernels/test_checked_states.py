"""A move of a state that names a row or a slot that is not there is refused before any memory is written by it."""

from collections.abc import Sequence

import numpy as np
import pytest
from tests.libs.engine.kernels.moved_states import SLOT_COUNT
from tests.libs.engine.needed_kernels import needs_kernels

from headrace.engine.kernels.context import KernelContext
from headrace.engine.kernels.structures import Convolution, Recurrence
from headrace.engine.memory.aligned import address

pytestmark = needs_kernels

LARGEST, SMALLEST = 2**63 - 1, -(2**63)
ROWS = 5
GOOD = ((0, 3, -1, 0, 0, 0, 0, 0), (3, 2, 1, SLOT_COUNT - 1, 1, 2, 2, 3))
BAD = {
    "a move that begins elsewhere": (0, 0, 1, "moves"),
    "a move that overlaps": (1, 0, 2, "moves"),
    "a move without tokens": (1, 1, 0, "moves"),
    "a move that is too long": (1, 1, 3, "moves"),
    "a move of the largest length": (1, 1, LARGEST, "moves"),
    "a copy behind the end": (1, 4, 3, "moves"),
    "a copy before the beginning": (1, 6, -1, "moves"),
    "a source below none": (0, 2, -2, "slot"),
    "a source beyond": (1, 2, SLOT_COUNT, "slot"),
    "the smallest source": (1, 2, SMALLEST, "slot"),
    "a target below none": (0, 3, -2, "slot"),
    "the largest target": (0, 3, LARGEST, "slot"),
    "a copy below the slots": (1, 5, -1, "slot"),
    "a copy beyond the slots": (1, 7, SLOT_COUNT, "slot"),
}
"""The move, its number, what that is set to, and what is said."""
COUNTS = {
    "no key heads": ("recur", (4, 0, 6, 8)),
    "more key heads than heads": ("recur", (2, 4, 6, 8)),
    "key heads that do not divide heads": ("recur", (4, 3, 6, 8)),
    "no keys": ("recur", (4, 2, 0, 8)),
    "no values": ("recur", (4, 2, 6, 0)),
    "no taps": ("convolve", (0, 20, 30)),
    "more taps than a kernel takes": ("convolve", (17, 20, 30)),
    "no channels": ("convolve", (3, 0, 30)),
    "rows shorter than the channels": ("convolve", (3, 20, 19)),
}
"""A kernel and its sizes."""


class Written:
    """Slots and outputs that both kernels write, and calls of them."""

    def __init__(self) -> None:
        self._inputs = np.ones(4096, np.float32)
        self._slots, self._outputs = np.zeros(4096, np.float32), np.zeros(4096, np.float32)

    @property
    def is_there(self) -> bool:
        return bool(self._slots.any() or self._outputs.any())

    def recur(self, moves: Sequence[Sequence[int]], sizes: tuple[int, ...] = (4, 2, 6, 8)) -> None:
        layout = np.array(moves, np.int64)
        places = [address(each) for each in (*[self._inputs] * 5, self._outputs, self._slots)]
        KernelContext(2).recur(Recurrence(*places, address(layout), ROWS, len(moves), SLOT_COUNT, *sizes, 1))

    def convolve(self, moves: Sequence[Sequence[int]], sizes: tuple[int, ...] = (3, 20, 30)) -> None:
        layout = np.array(moves, np.int64)
        places = [address(self._inputs), address(self._inputs), None]
        places += [address(each) for each in (self._outputs, self._slots)]
        KernelContext(2).convolve(Convolution(*places, address(layout), ROWS, len(moves), SLOT_COUNT, *sizes))


@pytest.mark.parametrize("kernel", ["recur", "convolve"])
def test_moves_that_are_there_are_made(kernel: str) -> None:
    written = Written()
    getattr(written, kernel)(GOOD)
    assert written.is_there


@pytest.mark.parametrize("kernel", ["recur", "convolve"])
@pytest.mark.parametrize("name", BAD)
def test_a_bad_number_is_refused_and_writes_nothing(kernel: str, name: str) -> None:
    at, place, number, reason = BAD[name]
    moves = [list(move) for move in GOOD]
    moves[at][place] = number
    written = Written()
    with pytest.raises(IndexError, match=reason):
        getattr(written, kernel)(moves)
    assert not written.is_there


@pytest.mark.parametrize("name", COUNTS)
def test_bad_sizes_are_refused_and_write_nothing(name: str) -> None:
    kernel, sizes = COUNTS[name]
    written = Written()
    with pytest.raises(IndexError, match="count"):
        getattr(written, kernel)(GOOD, sizes)
    assert not written.is_there


@pytest.mark.parametrize("kernel", ["recur", "convolve"])
def test_moves_must_cover_the_rows(kernel: str) -> None:
    with pytest.raises(IndexError, match="moves"):
        getattr(Written(), kernel)(GOOD[:1])
