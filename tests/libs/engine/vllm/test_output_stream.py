"""vLLM's outputs become deltas that go on where another engine stopped."""

from types import SimpleNamespace
from typing import Any

import pytest
from tests.libs.engine.engine_running import request

from headrace.engine.contract.request import FinishReason
from headrace.engine.vllm.output_stream import OutputStream
from headrace.errors.tree import InternalError


def output(*token_ids: int, finish: str | None = None, logprobs: Any = None, cached: int = 0) -> Any:
    made = SimpleNamespace(token_ids=list(token_ids), finish_reason=finish, logprobs=logprobs)
    return SimpleNamespace(
        outputs=[made], finished=finish is not None, num_cached_tokens=cached, prompt_logprobs=None, prompt_token_ids=[]
    )


def test_tokens_are_numbered_after_those_of_another_engine() -> None:
    stream = OutputStream(request("r", (1, 2), (7, 8), max_tokens=5), is_replay=False)
    first, last = stream.read(output(9, cached=16)), stream.read(output(10, finish="length"))
    assert first is not None
    assert last is not None
    assert (first.first_index, first.token_ids, first.cached_token_count) == (2, (9,), 16)
    assert (last.first_index, last.token_ids, last.finish_reason) == (3, (10,), FinishReason.LENGTH)


def test_a_replay_leaves_out_what_was_delivered() -> None:
    stream = OutputStream(request("r", (1, 2), (7, 8, 9), max_tokens=9), is_replay=True)
    assert stream.read(output(7, 8)) is None
    delta = stream.read(output(9, 10, 11))
    assert delta is not None
    assert (delta.first_index, delta.token_ids) == (3, (10, 11))


def test_a_replay_that_goes_another_way_is_an_error_of_its_request() -> None:
    stream = OutputStream(request("r", (1, 2), (7, 8), max_tokens=9), is_replay=True)
    with pytest.raises(InternalError) as caught:
        stream.read(output(7, 5))
    assert caught.value.details["request_id"] == "r"


def test_an_end_for_another_reason_is_an_error_of_its_request() -> None:
    stream = OutputStream(request("r", (1, 2), max_tokens=9), is_replay=False)
    with pytest.raises(InternalError, match="abort"):
        stream.read(output(finish="abort"))


@pytest.mark.parametrize("chosen", [50, 51, 99])
def test_the_strongest_are_reported_besides_the_chosen(chosen: int) -> None:
    table = {50: SimpleNamespace(logprob=-0.1, rank=1), 51: SimpleNamespace(logprob=-0.2, rank=2)}
    table.setdefault(chosen, SimpleNamespace(logprob=-3.0, rank=7))
    stream = OutputStream(request("r", (1,), max_tokens=9, logprob_count=2), is_replay=False)
    delta = stream.read(output(chosen, logprobs=[table]))
    assert delta is not None
    assert delta.logprobs[0].token_id == chosen
    assert delta.logprobs[0].top == ((50, -0.1), (51, -0.2))


def test_a_request_that_only_scores_its_prompt_gets_no_token() -> None:
    stream = OutputStream(request("r", (1, 2), max_tokens=0, prompt_logprob_count=1), is_replay=False)
    made = output(9, finish="length")
    made.prompt_token_ids = [1, 2]
    made.prompt_logprobs = [None, {2: SimpleNamespace(logprob=-0.5, rank=1)}]
    delta = stream.read(made)
    assert delta is not None
    assert (delta.token_ids, delta.finish_reason) == ((), FinishReason.LENGTH)
    assert delta.prompt_logprobs is not None
    assert [entry and entry.logprob for entry in delta.prompt_logprobs] == [None, -0.5]
