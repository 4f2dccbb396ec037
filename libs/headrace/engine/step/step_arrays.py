"""A step as kernels read it: numbers in arrays, without objects."""

from array import array
from collections.abc import Iterable
from dataclasses import dataclass

from headrace.engine.batching.sequence import make_block_table
from headrace.engine.batching.step_plan import Chunk


@dataclass(frozen=True, slots=True)
class StepArrays:
    """The tokens of a step, one chunk after the other, all int64."""

    token_ids: "array[int]"
    """Ids of the tokens [tokens]."""
    tables: "array[int]"
    """Block numbers of all sequences."""
    spans: "array[int]"
    """Spans of the chunks [chunks, 4]: first token in the step, token count, first position in its sequence, and where
    the block numbers of that sequence begin in `tables`."""

    @classmethod
    def of(cls, chunks: Iterable[Chunk]) -> "StepArrays":
        token_ids: list[int] = []
        spans: list[int] = []
        tables = make_block_table()
        for chunk in chunks:
            spans += (len(token_ids), chunk.token_count, chunk.start, len(tables))
            token_ids += chunk.token_ids
            tables += chunk.sequence.block_table
        return cls(array("q", token_ids), tables, array("q", spans))

    @property
    def span_count(self) -> int:
        return len(self.spans) // 4
