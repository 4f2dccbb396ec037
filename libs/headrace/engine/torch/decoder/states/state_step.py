"""The states of one step: where each span's comes from, where it goes, and which inputs a convolution sees."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from headrace.engine.kv.sequence_state import MAX_CAPTURES
from headrace.engine.step.step_arrays import Integers, StepArrays
from headrace.engine.torch.device.device_copy import to_device


@dataclass(frozen=True, slots=True)
class StateMove:
    """The state of one span, for a recurrence that takes its tokens in order."""

    first_row: int
    """Index of the span's first token among the tokens of the step."""
    token_count: int
    source: int
    """Slot of the state that it continues. -1: a text begins."""
    target: int
    """Slot that takes the state behind its last token."""
    captures: dict[int, int]
    """Slots that take a copy of the state, by the number of tokens before it."""


@dataclass(frozen=True, slots=True)
class StateStep:
    """Facts about one step, all on the device of the model."""

    sources: Tensor
    """Slots of the states that the spans continue, int64 [spans]. Slot 0 stands for none."""
    is_new: Tensor
    """Whether a span continues no state, but begins with zeros: bool [spans]."""
    targets: Tensor
    """Slots that take the states behind the last tokens of the spans, int64 [spans]."""
    captured_slots: Tensor
    """Slots that take states behind other tokens, int64 [captured]."""
    seen: Tensor
    """Rows that each tap of a convolution multiplies for each token, int64 [taps, tokens]: tails of all spans come
    first, then the tokens."""
    tails: Tensor
    """Rows of the new tail of each span, int64 [spans, taps - 1]."""
    captured_tails: Tensor
    """Rows of the tails that are captured, int64 [captured, taps - 1]."""
    moves: tuple[StateMove, ...]
    """The same for each span."""
    numbers: Integers
    """The same as integers [spans, 8], for the CPU kernels: see `StateMove` in `kernels/src/abi.h`."""

    @classmethod
    def of(cls, arrays: StepArrays, spare: int, width: int, device: torch.device) -> "StateStep":
        """Lays a step out for a convolution of `width` taps. Spans without a state begin a text, and leave theirs in
        the slot `spare`."""
        spans = arrays.spans
        none = [-1, spare, *[0, spare] * MAX_CAPTURES]
        moves = arrays.states if len(arrays.states) else np.tile(none, (len(spans), 1))
        captures = _Captures.of(moves)
        counts, lanes = spans[:, 1], np.arange(len(spans))
        owners, local = np.repeat(lanes, counts), np.arange(arrays.token_count) - np.repeat(spans[:, 0], counts)
        places = _Places(spans[:, 0], width - 1)
        parts = (
            np.maximum(moves[:, 0], 0),
            moves[:, 1],
            captures.slots,
            np.stack([places.rows(owners, local - back) for back in range(width - 1, -1, -1)]),
            places.tails(lanes, counts),
            places.tails(captures.spans, captures.counts),
        )
        sources, targets, slots, seen, tails, captured_tails = (to_device(part.copy(), device) for part in parts)
        is_new = to_device(moves[:, 0] < 0, device)
        numbers = np.column_stack([spans[:, :2], moves])
        # Kernels of several threads would write the spare slot at once.
        numbers[numbers[:, 3] == spare, 3] = -1
        return cls(sources, is_new, targets, slots, seen, tails, captured_tails, tuple(_moves(spans, moves)), numbers)


@dataclass(frozen=True, slots=True)
class _Places:
    """Rows of a tensor that has the tails of all spans, and then the tokens of the step."""

    firsts: Integers
    """Index of each span's first token."""
    tail_length: int

    def rows(self, spans: Integers, local: Integers) -> Integers:
        """Returns the rows of tokens, each numbered from the first of its span. Negative ones lie in its tail."""
        inside = len(self.firsts) * self.tail_length + self.firsts[spans] + local
        return np.where(local < 0, (spans + 1) * self.tail_length + local, inside)

    def tails(self, spans: Integers, counts: Integers) -> Integers:
        """Returns the rows [spans, taps - 1] before the token number `counts` of each span."""
        back = np.arange(-self.tail_length, 0)
        local = counts[:, None] + back
        return self.rows(np.broadcast_to(spans[:, None], local.shape), local)


@dataclass(frozen=True, slots=True)
class _Captures:
    """Copies of states that a step takes, each array int64 [captured]."""

    spans: Integers
    counts: Integers
    """Tokens of the span before each."""
    slots: Integers

    @classmethod
    def of(cls, moves: Integers) -> "_Captures":
        pairs = moves[:, 2:].reshape(len(moves), -1, 2)
        spans, places = np.nonzero(pairs[:, :, 0])
        return cls(spans, pairs[spans, places, 0], pairs[spans, places, 1])


def _moves(spans: Integers, moves: Integers) -> Iterator[StateMove]:
    for (first_row, token_count, *_), (source, target, *pairs) in zip(spans.tolist(), moves.tolist(), strict=True):
        captures = {count: slot for count, slot in zip(pairs[::2], pairs[1::2], strict=True) if count}
        yield StateMove(first_row, token_count, source, target, captures)
