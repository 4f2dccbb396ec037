"""Parts of a step hold each of its tokens and logits once, and read the same blocks."""

from array import array

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.engine.parallel.microbatches import split_step
from headrace.engine.parallel.rank_channel import pack_step, unpack_step
from headrace.engine.step.step_arrays import StepArrays


def step_of(lengths: list[int], adapters: tuple[str, ...] = ()) -> StepArrays:
    """A step with a span of each length, whose last tokens want logits, the later spans first."""
    spans: list[int] = []
    tables: list[int] = []
    for number, length in enumerate(lengths):
        spans += (sum(lengths[:number]), length, 3 * number, len(tables))
        tables += range(100 * number, 100 * number + 1 + length)
    ends = [sum(lengths[: number + 1]) - 1 for number in range(len(lengths))]
    tokens = array("q", range(sum(lengths)))
    return StepArrays(tokens, array("q", tables), array("q", spans), array("q", ends[::-1]), adapters)


@given(lengths=st.lists(st.integers(1, 40), min_size=1, max_size=12), count=st.integers(1, 5))
def test_every_token_is_in_one_part(lengths: list[int], count: int) -> None:
    whole = step_of(lengths)
    parts = split_step(whole, count)
    assert 1 <= len(parts) <= count
    assert np.concatenate([part.arrays.token_ids for part in parts]).tolist() == whole.token_ids.tolist()
    spans = [span for part in parts for span in part.arrays.split()]
    for span, original in zip(spans, whole.split(), strict=True):
        assert (span.token_count, span.start, span.table.tolist()) == (
            original.token_count,
            original.start,
            original.table.tolist(),
        )
    wanted = {
        place: part.arrays.token_ids[row]
        for part in parts
        for place, row in zip(part.logit_places, part.arrays.logit_rows, strict=True)
    }
    assert [wanted[place] for place in range(whole.logit_count)] == whole.token_ids[whole.logit_rows].tolist()


def test_decodes_are_split_evenly() -> None:
    assert [part.arrays.token_count for part in split_step(step_of([1] * 16), 4)] == [4, 4, 4, 4]


def test_each_span_keeps_its_adapter() -> None:
    parts = split_step(step_of([4] * 6, ("", "", "", "a", "b", "")), 3)
    assert [part.arrays.adapters for part in parts] == [(), ("", "a"), ("b", "")]


@pytest.mark.parametrize("lengths", [[1], [5, 1, 7]])
@pytest.mark.parametrize("adapters", [(), ("", "a", "größer")])
def test_a_step_reaches_another_process_as_it_is(lengths: list[int], adapters: tuple[str, ...]) -> None:
    step = step_of(lengths, adapters if len(lengths) == 3 else ())
    read = unpack_step(pack_step(step))
    assert read.buffer == step.buffer
    assert read.spans.tolist() == step.spans.tolist()
    assert read.logit_rows.tolist() == step.logit_rows.tolist()
    assert read.adapters == step.adapters
