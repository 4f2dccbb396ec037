"""Parts of a step that stages compute one after the other, so that all stages are busy at once."""

from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from headrace.engine.step.step_arrays import Span, StepArrays


@dataclass(frozen=True, slots=True)
class Microbatch:
    """Some spans of a step."""

    arrays: StepArrays
    logit_places: tuple[int, ...]
    """Places of its logits among those of the whole step."""


def split_step(arrays: StepArrays, count: int) -> list[Microbatch]:
    """Splits a step between spans into at most `count` parts of about as many tokens. What a token computes does not
    depend on the others, so no result changes."""
    spans = arrays.split()
    if count == 1 or len(spans) < 2:
        return [Microbatch(arrays, tuple(range(arrays.logit_count)))]
    target = arrays.token_count / count
    begins: list[int] = []
    for index, span in enumerate(spans):
        if not begins or (len(begins) < count and span.first_row >= len(begins) * target):
            begins.append(index)
    ends = pairwise([*begins, len(spans)])
    return [_part(arrays, spans[begin:end], arrays.adapters[begin:end]) for begin, end in ends]


def _part(arrays: StepArrays, spans: Sequence[Span], adapters: tuple[str, ...]) -> Microbatch:
    first, end = spans[0].first_row, spans[-1].first_row + spans[-1].token_count
    fields: list[int] = []
    tables = array("q")
    for span in spans:
        fields += (span.first_row - first, span.token_count, span.start, len(tables))
        tables.extend(span.table.tolist())
    rows = arrays.logit_rows.tolist()
    places = tuple(place for place, row in enumerate(rows) if first <= row < end)
    tokens = array("q", arrays.token_ids[first:end].tolist())
    wanted = array("q", [rows[place] - first for place in places])
    names = adapters if any(adapters) else ()
    return Microbatch(StepArrays(tokens, tables, array("q", fields), wanted, names), places)
