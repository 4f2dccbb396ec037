"""Prompts and answers beside the context of a model."""

from dataclasses import replace

import pytest

from headrace.domain.deadline import Deadline
from headrace.domain.ids import RequestId
from headrace.errors import ContextExceeded, InvalidRequest
from headrace.gateway.access.tenant import PUBLIC
from headrace.gateway.fleet.model_facts import ModelFacts
from headrace.gateway.job.job import Job, Options
from headrace.gateway.job.sampling import Sampling
from headrace.gateway.job.truncation import WHOLE_CONTEXT, Truncation
from headrace.gateway.request.envelope import Envelope
from headrace.gateway.text.detokenizer import Vocabulary

WINDOW = 16
MODEL = ModelFacts("m", max_model_length=WINDOW, vocabulary_size=100)
VOCABULARY = Vocabulary((), frozenset(), False, False)
OPTIONS = Options(Sampling(min_token_count=12), 32_000, limit_field="max_completion_tokens", prompt_field="messages")


def job(options: Options, length: int, model: ModelFacts = MODEL) -> Job:
    envelope = Envelope(RequestId("r"), 0.0, Deadline.after(5), PUBLIC, "", use_cache=False)
    return Job(envelope, model, VOCABULARY, [[1] * length], options)


def test_an_answer_may_end_at_the_window() -> None:
    made = job(replace(OPTIONS, ends_at_window=True), 6)
    made.check()
    (sequence,) = made.sequences()
    assert (sequence.sampling.max_token_count, sequence.sampling.min_token_count) == (10, 10)


def test_otherwise_it_is_refused_by_the_field_that_bounds_it() -> None:
    with pytest.raises(
        ContextExceeded, match=r"context length is 16 tokens.*has 6 and max_completion_tokens"
    ) as refused:
        job(OPTIONS, 6).check()
    assert refused.value.param == "max_completion_tokens"


@pytest.mark.parametrize(("length", "says"), [(17, "17 tokens > 16 maximum"), (16, r"16 \+ 1 tokens > 16 maximum")])
def test_a_prompt_that_is_too_long_is_refused_all_the_same(length: int, says: str) -> None:
    with pytest.raises(ContextExceeded, match=says) as refused:
        job(replace(OPTIONS, ends_at_window=True), length).check()
    assert refused.value.param == "messages"


def test_a_model_that_evicts_its_context_may_say_more() -> None:
    made = job(OPTIONS, 6, replace(MODEL, evicts_context=True))
    made.check()
    assert made.sequences()[0].sampling.max_token_count == 32_000


@pytest.mark.parametrize(
    ("truncation", "read"),
    [
        (Truncation(3), [4, 5, 6]),
        (Truncation(3, "right"), [1, 2, 3]),
        (Truncation(99), [1, 2, 3, 4, 5, 6]),
        (Truncation(WHOLE_CONTEXT), [3, 4, 5, 6]),
    ],
)
def test_the_tokens_beyond_a_truncation_are_left_out(truncation: Truncation, read: list[int]) -> None:
    assert truncation.of([1, 2, 3, 4, 5, 6], context=8, wanted=4) == read


def test_allowed_tokens_must_be_in_the_vocabulary() -> None:
    with pytest.raises(InvalidRequest, match="100") as refused:
        job(replace(OPTIONS, ends_at_window=True, allowed_token_ids=frozenset({100})), 6).check()
    assert refused.value.param == "allowed_token_ids"


def test_an_end_that_is_not_among_the_allowed_tokens_never_comes() -> None:
    options = replace(OPTIONS, allowed_token_ids=frozenset({5, 7})).allowing([7, 9])
    assert options.sampling.logit_biases == {9: -100.0}
    assert OPTIONS.allowing([7, 9]) is OPTIONS
