"""The one form in which a step reaches a model: integers in one buffer, without objects."""

from array import array
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from headrace.engine.batching.step_plan import Chunk
from headrace.engine.kv.sequence_state import MAX_CAPTURES

Integers = NDArray[np.int64]
SPAN_FIELDS = 4
MOVE_FIELDS = 2 + 2 * MAX_CAPTURES


class Span(NamedTuple):
    """Consecutive tokens of one sequence."""

    first_row: int
    """Index of the span's first token among those of the step."""
    token_count: int
    start: int
    """Position of the first token in its sequence."""
    table: Integers
    """Block numbers of the sequence."""

    @property
    def end(self) -> int:
        """Position one past the last token."""
        return self.start + self.token_count


class StepArrays:
    """The tokens of a step, one span after the other, all int64. Never changed.

    The C++ kernels read the arrays where they are, see `Step` in `kernels/src/abi.h`; torch takes them as tensors. All
    lie in one buffer, so that one copy takes them to a device or to another process.
    """

    # No dataclass: one is made for each step, which would take a third of the time.
    __slots__ = ("_moves", "adapters", "buffer", "logit_count", "span_count", "table_size", "token_count")

    def __init__(
        self,
        token_ids: "array[int]",
        tables: "array[int]",
        spans: "array[int]",
        logit_rows: "array[int]",
        adapters: tuple[str, ...] = (),
        moves: "array[int] | None" = None,
    ) -> None:
        self.buffer = token_ids + tables + spans + logit_rows
        self.token_count = len(token_ids)
        self.table_size = len(tables)
        self.span_count = len(spans) // SPAN_FIELDS
        self.logit_count = len(logit_rows)
        self.adapters = adapters
        """Name of the adapter of each span, empty for the model as it is. Nothing where no span has one."""
        self._moves = moves

    @classmethod
    def of(cls, chunks: Iterable[Chunk], logit_rows: Sequence[int] = ()) -> "StepArrays":
        """Lays `chunks` out, one after the other."""
        token_ids: list[int] = []
        spans: list[int] = []
        tables = array("q")
        moves = array("q")
        adapters = []
        for chunk in chunks:
            spans += (len(token_ids), chunk.token_count, chunk.start, len(tables))
            token_ids += chunk.token_ids
            tables += chunk.sequence.block_table
            adapters.append(chunk.sequence.request.adapter)
            if chunk.sequence.state is not None:
                moves.extend(chunk.sequence.state.moves(chunk.start, chunk.end, len(chunk.draft)))
        names = tuple(adapters) if any(adapters) else ()
        return cls(array("q", token_ids), tables, array("q", spans), array("q", logit_rows), names, moves)

    @property
    def token_ids(self) -> Integers:
        """Ids of the tokens [tokens]."""
        return self._part(0, self.token_count)

    @property
    def tables(self) -> Integers:
        """Block numbers of all sequences."""
        return self._part(self.token_count, self.table_size)

    @property
    def spans(self) -> Integers:
        """Spans [spans, 4]: first token in the step, token count, first position in its sequence, and where the block
        numbers of that sequence begin in `tables`."""
        part = self._part(self.token_count + self.table_size, self.span_count * SPAN_FIELDS)
        return part.reshape(-1, SPAN_FIELDS)

    @property
    def logit_rows(self) -> Integers:
        """Indices of the tokens whose logits are wanted [rows]."""
        return self._part(len(self.buffer) - self.logit_count, self.logit_count)

    @property
    def states(self) -> Integers:
        """Moves of the states of spans [spans, 6], see `SequenceState.moves`. No rows where sequences keep none."""
        return np.frombuffer(self._moves or array("q"), np.int64).reshape(-1, MOVE_FIELDS)

    @property
    def positions(self) -> Integers:
        """Position of each token in its sequence [tokens]."""
        return np.arange(self.token_count) + self._per_token(self.spans[:, 2] - self.spans[:, 0])

    def slots(self, block_size: int) -> Integers:
        """Returns where in the KV cache each token belongs [tokens]: block x block size + offset."""
        positions = self.positions
        blocks: Integers = self.tables[self._per_token(self.spans[:, 3]) + positions // block_size]
        return blocks * block_size + positions % block_size

    def split(self) -> list[Span]:
        """Lists the spans, each with the block numbers of its sequence."""
        spans, tables = self.spans.tolist(), self.tables
        ends = [*(begin for *_, begin in spans[1:]), self.table_size]
        return [
            Span(first_row, token_count, start, tables[begin:end])
            for (first_row, token_count, start, begin), end in zip(spans, ends, strict=False)
        ]

    def _part(self, first: int, count: int) -> Integers:
        whole = np.frombuffer(self.buffer, np.int64) if self.buffer else np.empty(0, np.int64)
        return whole[first : first + count]

    def _per_token(self, values: Integers) -> Integers:
        """Repeats the value of each span [spans] for all of its tokens [tokens]."""
        return np.repeat(values, self.spans[:, 1])


NO_STEP = StepArrays.of(())
"""A step without tokens."""
