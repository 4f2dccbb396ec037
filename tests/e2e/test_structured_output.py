"""Structured output over HTTP and gRPC: the SDK's response_format, vLLM's fields, streams, and refusals."""

import json
import re
from collections.abc import Iterator
from typing import Any, Literal

import grpc
import httpx2
import openai
import pytest
from pydantic import BaseModel, Field
from tests.harness.running_platform import RunningPlatform

from headrace.v1 import generation_pb2, inference_pb2, inference_pb2_grpc

MODEL = "headrace-demo"
MESSAGES: list[Any] = [{"role": "user", "content": "What is continuous batching?"}]
BAD_SCHEMA = {"type": "object", "properties": {"a": {"not": {"type": "string"}}}}


class Step(BaseModel):
    title: str = Field(max_length=20)
    minutes: int = Field(ge=0, le=90)


class Plan(BaseModel):
    kind: Literal["fast", "thorough"]
    steps: list[Step] = Field(min_length=1, max_length=2)


@pytest.fixture
def sdk(demo_platform: RunningPlatform) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=f"{demo_platform.http}/v1", api_key="none", max_retries=0) as client:
        yield client


@pytest.fixture
def http(demo_platform: RunningPlatform) -> Iterator[httpx2.Client]:
    with httpx2.Client(base_url=demo_platform.http, timeout=60) as client:
        yield client


def chat(http: httpx2.Client, **fields: Any) -> httpx2.Response:
    return http.post("/v1/chat/completions", json={"model": MODEL, "messages": MESSAGES, "max_tokens": 400} | fields)


def content(http: httpx2.Client, **fields: Any) -> str:
    response = chat(http, **fields)
    assert response.status_code == 200, response.text
    (choice,) = response.json()["choices"]
    assert choice["finish_reason"] == "stop"
    return str(choice["message"]["content"])


def as_response_format(schema: dict[str, Any]) -> dict[str, Any]:
    return {"type": "json_schema", "json_schema": {"name": "n", "schema": schema}}


@pytest.mark.parametrize("temperature", [0, 1.5])
def test_the_sdk_parses_into_a_model(sdk: openai.OpenAI, temperature: float) -> None:
    completion = sdk.chat.completions.parse(
        model=MODEL, messages=MESSAGES, response_format=Plan, temperature=temperature, seed=3
    )
    assert isinstance(completion.choices[0].message.parsed, Plan)


def test_the_sdk_parses_a_stream(sdk: openai.OpenAI) -> None:
    with sdk.chat.completions.stream(model=MODEL, messages=MESSAGES, response_format=Plan, temperature=0) as stream:
        streamed = stream.get_final_completion().choices[0].message
    whole = sdk.chat.completions.parse(model=MODEL, messages=MESSAGES, response_format=Plan, temperature=0)
    assert streamed.parsed == whole.choices[0].message.parsed
    assert streamed.content == whole.choices[0].message.content


def test_json_object(http: httpx2.Client) -> None:
    answer = chat(http, response_format={"type": "json_object"}, temperature=0, max_tokens=1500).json()["choices"][0]
    text = answer["message"]["content"]
    assert text.startswith("{")
    if answer["finish_reason"] == "stop":
        assert isinstance(json.loads(text), dict)


@pytest.mark.parametrize("field", ["structured_outputs", "guided"])
@pytest.mark.parametrize("temperature", [0, 1.2])
def test_the_fields_of_vllm(http: httpx2.Client, field: str, temperature: float) -> None:
    def ask(kind: str, value: Any) -> str:
        fields = {f"guided_{kind}": value} if field == "guided" else {field: {kind: value}}
        return content(http, temperature=temperature, seed=1, **fields)

    assert ask("choice", ["red", "green"]) in {"red", "green"}
    assert re.fullmatch(r"\d{4}-\d{2}", ask("regex", r"\d{4}-\d{2}"))
    assert Plan.model_validate_json(ask("json", Plan.model_json_schema()))
    assert ask("grammar", 'root ::= "yes" | "no"') in {"yes", "no"}
    assert re.fullmatch("[ab]{3}!", ask("grammar", 'start: x x x "!"\nx: "a" | "b"'))


def test_completions_and_several_choices(http: httpx2.Client) -> None:
    body = {"model": MODEL, "prompt": ["a", "b"], "n": 2, "guided_regex": "[a-f]{5}", "temperature": 1.5, "seed": 1}
    response = http.post("/v1/completions", json=body)
    texts = [choice["text"] for choice in response.json()["choices"]]
    assert len(texts) == 4
    assert all(re.fullmatch("[a-f]{5}", text) for text in texts)
    assert len(set(texts)) > 1


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"response_format": as_response_format(BAD_SCHEMA)}, '"not"'),
        ({"structured_outputs": {"json": BAD_SCHEMA}}, '"not"'),
        ({"guided_json": {"type": "array", "uniqueItems": True}}, '"uniqueItems"'),
        ({"guided_json": {"type": "string", "format": "nope"}}, "nope"),
        ({"guided_json": '{"items":' * 5000 + "{}" + "}" * 5000}, "recursion"),
        ({"guided_regex": "(?=a)"}, "look-ahead"),
        ({"guided_regex": "("}, "unclosed"),
        ({"guided_grammar": "start: missing"}, "missing"),
    ],
)
def test_what_cannot_be_compiled_is_a_bad_request(
    http: httpx2.Client, demo_platform: RunningPlatform, fields: dict[str, Any], text: str, stream: bool
) -> None:
    response = chat(http, stream=stream, **fields)
    assert response.status_code == 400, response.text
    error = response.json()["error"]
    assert error["param"] == next(iter(fields))
    assert text in error["message"]
    assert content(http, guided_choice=["fine"]) == "fine"
    demo_platform.wait_until_idle()


def test_grpc(demo_platform: RunningPlatform) -> None:
    grammar = generation_pb2.Grammar(kind=generation_pb2.GRAMMAR_KIND_CHOICE, text='["red", "green"]')
    options = inference_pb2.GenerationOptions(sampling_params=generation_pb2.SamplingParams(grammar=grammar))
    with grpc.insecure_channel(demo_platform.grpc) as channel:
        stub = inference_pb2_grpc.InferenceServiceStub(channel)
        request = inference_pb2.GenerateRequest(model=MODEL, text="A color: ", options=options)
        assert stub.Generate(request, timeout=60).result.text in {"red", "green"}
        grammar.text = "nonsense"
        request.options.sampling_params.grammar.CopyFrom(grammar)
        with pytest.raises(grpc.RpcError) as caught:
            stub.Generate(request, timeout=60)
        assert caught.value.code() == grpc.StatusCode.INVALID_ARGUMENT
        request.options.sampling_params.grammar.ClearField("kind")
        with pytest.raises(grpc.RpcError) as caught:
            stub.Generate(request, timeout=60)
        assert caught.value.code() == grpc.StatusCode.INVALID_ARGUMENT
