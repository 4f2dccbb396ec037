"""Requests that the gRPC API refuses before anything runs."""

import pytest

from headrace.errors import InvalidRequest
from headrace.gateway.api.grpc.generation_request import conversation_of, options_of
from headrace.v1.generation_pb2 import SamplingParams
from headrace.v1.inference_pb2 import ChatRequest, GenerationOptions
from headrace.v1.tokenizer_pb2 import ChatMessage


@pytest.mark.parametrize("stop_texts", [[""], ["x" * 2000], ["x"] * 100])
def test_stop_texts_are_checked_as_over_http(stop_texts: list[str]) -> None:
    with pytest.raises(InvalidRequest, match="stop text"):
        options_of(GenerationOptions(stop_texts=stop_texts), 16)


@pytest.mark.parametrize(
    ("params", "param"),
    [
        (SamplingParams(min_token_count=-1), "min_token_count"),
        (SamplingParams(min_token_count=9, max_token_count=8), "min_token_count"),
        (SamplingParams(top_k=0), "top_k"),
        (SamplingParams(top_k=-1), "top_k"),
        (SamplingParams(logit_biases={5: float("nan")}), "logit_biases"),
        (SamplingParams(logit_biases={5: 101}), "logit_biases"),
        (SamplingParams(stop_token_ids=[1] * 65), "stop_token_ids"),
        (SamplingParams(temperature=float("nan")), "temperature"),
    ],
)
def test_sampling_parameters_are_checked_as_over_http(params: SamplingParams, param: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        options_of(GenerationOptions(sampling_params=params), 16)
    assert refused.value.param == param


@pytest.mark.parametrize("role", ["", "narrator", "x" * 100_000])
def test_unknown_roles_are_refused_in_few_words(role: str) -> None:
    with pytest.raises(InvalidRequest, match="message 1 has the role") as refused:
        conversation_of(
            ChatRequest(model="m", messages=[ChatMessage(role="user", content="a"), ChatMessage(role=role)])
        )
    assert len(refused.value.message) < 1000
