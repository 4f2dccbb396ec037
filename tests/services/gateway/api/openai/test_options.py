"""Options that a request body asks for."""

from headrace.gateway.api.openai.options import chat_options, completion_options
from headrace.gateway.api.openai.schema import ChatBody, CompletionBody


def test_without_a_temperature_the_seed_that_was_given_counts() -> None:
    body = CompletionBody(model="m", prompt="x", seed=7)
    assert completion_options(body).sampling.seed == 7


def test_without_temperature_and_seed_each_request_draws_its_own() -> None:
    body = ChatBody.model_validate({"model": "m", "messages": [{"role": "user", "content": "x"}]})
    assert chat_options(body).sampling.seed != chat_options(body).sampling.seed


def test_greedy_requests_are_the_same_whatever_their_seed() -> None:
    bodies = [CompletionBody(model="m", prompt="x", temperature=0, seed=seed) for seed in (1, 2)]
    assert [completion_options(body).sampling.seed for body in bodies] == [0, 0]
