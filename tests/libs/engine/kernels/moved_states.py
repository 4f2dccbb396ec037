"""States of several texts, which recurrences and convolutions move straight through the kernels, in any steps."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from headrace.engine.kernels.context import Floats, KernelContext
from headrace.engine.kernels.structures import Convolution, Recurrence
from headrace.engine.memory.aligned import address

LENGTHS = (70, 1, 33)
"""Tokens of each text."""
SLOT_COUNT = 8
"""Slots of states: the texts move those of their own number, and the last are for copies."""


class Piece(NamedTuple):
    """Consecutive tokens of a text in a step."""

    text: int
    first: int
    length: int
    captures: tuple[tuple[int, int], ...] = ()
    """Numbers of tokens, each with the slot that takes a copy of the state behind them."""
    source: int | None = None
    """Slot that it continues, if not that of the text."""
    target: int | None = None
    """Slot that takes the state, if not that of the text."""

    def move(self, first_row: int) -> list[int]:
        """The numbers of `StateMove` in `src/abi.h`."""
        source = self.source if self.source is not None else (self.text if self.first else -1)
        target = self.text if self.target is None else self.target
        pairs = [*self.captures, (0, 0), (0, 0)][:2]
        return [first_row, self.length, source, target, *(number for pair in pairs for number in pair)]


WHOLE = [[Piece(text, 0, length)] for text, length in enumerate(LENGTHS)]
"""Each text by itself, at once."""
CUT = [
    [Piece(2, 0, 5), Piece(0, 0, 1)],
    [Piece(0, 1, 40), Piece(1, 0, 1), Piece(2, 5, 1)],
    [Piece(2, 6, 27), Piece(0, 41, 28)],
    [Piece(0, 69, 1)],
]
"""All in chunks, beside each other."""


@dataclass(frozen=True)
class Moved:
    """Numbers that were found."""

    outputs: list[Floats]
    """Arrays [tokens, ...] of the texts."""
    slots: Floats

    def same_bits(self, other: "Moved") -> bool:
        """Compares the outputs and states of all texts."""
        texts = slice(len(LENGTHS))
        pairs = zip([*self.outputs, self.slots[texts]], [*other.outputs, other.slots[texts]], strict=True)
        return all(ours.tobytes() == theirs.tobytes() for ours, theirs in pairs)


def rows_of(texts: Sequence[Floats], step: Sequence[Piece]) -> Floats:
    return np.concatenate([texts[piece.text][piece.first : piece.first + piece.length] for piece in step])


def moves_of(step: Sequence[Piece]) -> "np.ndarray[tuple[int, ...], np.dtype[np.int64]]":
    firsts = np.cumsum([0, *(piece.length for piece in step)])
    return np.array([piece.move(first) for piece, first in zip(step, firsts.tolist(), strict=False)], np.int64)


def put(outputs: list[Floats], step: Sequence[Piece], found: Floats) -> None:
    first = 0
    for piece in step:
        outputs[piece.text][piece.first : piece.first + piece.length] = found[first : first + piece.length]
        first += piece.length


@dataclass(frozen=True)
class Recurring:
    """Texts with the inputs of a recurrence. Values of 40 fill no whole vectors."""

    corrects: bool
    head_count: int = 6
    key_head_count: int = 2
    key_size: int = 24
    value_size: int = 40
    parts: list[list[Floats]] = field(init=False)
    """Queries, keys, values, kept shares and rates of each text."""

    def __post_init__(self) -> None:
        random = np.random.default_rng(int(self.corrects))
        heads, shared = (self.head_count,), (self.key_head_count, self.key_size)
        queries = [random.standard_normal((length, *shared), np.float32) for length in LENGTHS]
        keys = [random.standard_normal((length, *shared), np.float32) for length in LENGTHS]
        keys = [each / np.linalg.norm(each, axis=-1, keepdims=True) for each in keys]
        values = [random.standard_normal((length, *heads, self.value_size), np.float32) for length in LENGTHS]
        kept = [1 - random.random((length, *heads), np.float32) / 8 for length in LENGTHS]
        rates = [random.random((length, *heads), np.float32) for length in LENGTHS]
        object.__setattr__(self, "parts", [queries, keys, values, kept, rates])

    def empty_slots(self) -> Floats:
        return np.full((SLOT_COUNT, self.head_count, self.key_size, self.value_size), np.nan, np.float32)

    def run(self, context: KernelContext, steps: Sequence[Sequence[Piece]], slots: Floats | None = None) -> Moved:
        """`slots` are moved where they are; without any, all begin as NaN."""
        slots = self.empty_slots() if slots is None else slots
        outputs = [np.empty_like(each) for each in self.parts[2]]
        for step in steps:
            inputs, moves = [rows_of(part, step) for part in self.parts], moves_of(step)
            found = np.empty_like(inputs[2])
            places = [address(each) for each in (*inputs, found, slots)]
            sizes = self.head_count, self.key_head_count, self.key_size, self.value_size
            context.recur(
                Recurrence(*places, address(moves), len(found), len(moves), SLOT_COUNT, *sizes, self.corrects)
            )
            put(outputs, step, found)
        return Moved(outputs, slots)

    def expected(self) -> "tuple[list[np.ndarray], list[np.ndarray]]":
        """Outputs of all texts, and their states at the end, in fp64."""
        found: list[np.ndarray] = []
        states: list[np.ndarray] = []
        share = self.head_count // self.key_head_count
        for queries, keys, values, kept, rates in zip(*self.parts, strict=True):
            state = np.zeros((self.head_count, self.key_size, self.value_size))
            rows = []
            for query, key, value, share_kept, rate in zip(queries, keys, values, kept, rates, strict=True):
                query, key = (each.repeat(share, axis=0).astype(np.float64) for each in (query, key))
                state = state * share_kept[:, None, None]
                recalled = np.einsum("hk,hkv->hv", key, state) if self.corrects else 0.0
                state = state + np.einsum("hk,hv->hkv", key, rate[:, None] * (value - recalled))
                rows.append(np.einsum("hk,hkv->hv", query, state))
            found.append(np.array(rows))
            states.append(state)
        return found, states


@dataclass(frozen=True)
class Convolved:
    """Texts whose channels are convolved. 300 are more than one task, and fill no whole vectors."""

    tap_count: int
    has_bias: bool = True
    channel_count: int = 300
    stride: int = 310

    def texts(self) -> list[Floats]:
        random = np.random.default_rng(self.tap_count)
        return [random.standard_normal((length, self.stride), np.float32) for length in LENGTHS]

    def weights(self) -> tuple[Floats, Floats | None]:
        random = np.random.default_rng(9)
        taps = random.standard_normal((self.tap_count, self.channel_count), np.float32)
        return taps, random.standard_normal(self.channel_count, np.float32) if self.has_bias else None

    def run(self, context: KernelContext, steps: Sequence[Sequence[Piece]]) -> Moved:
        """All slots begin as NaN."""
        slots = np.full((SLOT_COUNT, self.tap_count - 1, self.channel_count), np.nan, np.float32)
        texts, (taps, bias) = self.texts(), self.weights()
        outputs = [np.empty((length, self.channel_count), np.float32) for length in LENGTHS]
        for step in steps:
            inputs, moves = rows_of(texts, step), moves_of(step)
            found = np.empty((len(inputs), self.channel_count), np.float32)
            shift = None if bias is None else address(bias)
            places = address(inputs), address(taps), shift, address(found), address(slots), address(moves)
            sizes = self.tap_count, self.channel_count, self.stride
            context.convolve(Convolution(*places, len(found), len(moves), SLOT_COUNT, *sizes))
            put(outputs, step, found)
        return Moved(outputs, slots)

    def expected(self) -> list[Floats]:
        """Sums in the order of the taps, each rounded to fp32."""
        taps, bias = self.weights()
        found = []
        for text in self.texts():
            before = np.zeros((self.tap_count - 1, self.channel_count), np.float32)
            rows = np.concatenate([before, text[:, : self.channel_count]])
            sums = rows[: len(text)] * taps[0]
            for tap in range(1, self.tap_count):
                sums = sums + rows[tap : tap + len(text)] * taps[tap]
            found.append(sums if bias is None else sums + bias)
        return found
