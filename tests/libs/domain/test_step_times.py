"""Prompt tokens that fit a step beside sequences that get a token."""

import math

import pytest

from headrace.domain.step_times import StepTimes

TIMES = StepTimes(0.01, prompt_token_seconds=0.001, sequence_seconds=0.002, context_token_seconds=0.00001)


@pytest.mark.parametrize(("sequences", "context"), [(1, 0), (4, 1000), (16, 4000)])
def test_a_step_with_as_many_takes_the_seconds(sequences: int, context: int) -> None:
    room = TIMES.prompt_tokens_within(0.2, sequences, context)
    assert TIMES.seconds(room, sequences, context) == pytest.approx(0.2)


def test_a_step_that_is_long_without_prompts_is_at_most_doubled() -> None:
    room = TIMES.prompt_tokens_within(0.2, 90, 2000)
    assert TIMES.seconds(room, 90, 2000) == pytest.approx(2 * TIMES.seconds(0, 90, 2000))


def test_where_tokens_take_no_time_any_number_fits() -> None:
    assert TIMES.prompt_tokens_within(0.2, 1, 0) < math.inf
    assert StepTimes(0.01).prompt_tokens_within(0.2, 1, 0) == math.inf
