"""Tools over HTTP and gRPC: the SDKs' ways to call them, agents' loops, and refusals."""

import asyncio
import json
import random
from collections.abc import Iterator
from typing import Any

import grpc
import httpx2
import jsonschema
import openai
import pytest
from pydantic import BaseModel, Field
from tests.harness.running_platform import RunningPlatform
from tests.libs.engine.grammar.random_schema import random_schema

from headrace.v1 import inference_pb2, inference_pb2_grpc
from headrace.v1.tokenizer_pb2 import ChatMessage

MODEL = "headrace-demo"
QUESTION: list[Any] = [{"role": "user", "content": "What is the weather in Ulm?"}]
WEATHER: dict[str, Any] = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "Tells the weather",
        "parameters": {
            "type": "object",
            "properties": {"city": {"type": "string", "maxLength": 12}, "unit": {"enum": ["c", "f"]}},
            "required": ["city"],
        },
    },
}
NOW: dict[str, Any] = {"type": "function", "function": {"name": "now"}}
NAMED = {"type": "function", "function": {"name": "now"}}
SCHEMA_COUNT = 30
"""Random schemas for each way of answering: streamed and whole."""
AT_ONCE = 16


class Place(BaseModel):
    """Finds a place."""

    city: str = Field(max_length=12)
    radius: int = Field(ge=0, le=99)


@pytest.fixture
def sdk(demo_platform: RunningPlatform) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=f"{demo_platform.http}/v1", api_key="none", max_retries=0) as client:
        yield client


def create(sdk: openai.OpenAI, **fields: Any) -> Any:
    given: dict[str, Any] = {"model": MODEL, "messages": QUESTION, "tools": [WEATHER, NOW], "temperature": 0}
    given |= {"max_tokens": 300, "parallel_tool_calls": False} | fields
    return sdk.chat.completions.create(**given)


def test_a_required_call_is_made(sdk: openai.OpenAI) -> None:
    choice = create(sdk, tool_choice="required").choices[0]
    assert choice.finish_reason == "tool_calls"
    assert choice.message.content is None
    (call,) = choice.message.tool_calls
    assert call.type == "function"
    assert call.function.name in ("get_weather", "now")
    assert isinstance(json.loads(call.function.arguments), dict)


def test_a_named_tool_is_called(sdk: openai.OpenAI) -> None:
    (call,) = create(sdk, tool_choice=NAMED).choices[0].message.tool_calls
    assert call.function.name == "now"


def test_allowed_tools_are_the_only_ones(sdk: openai.OpenAI) -> None:
    allowed = {"mode": "required", "tools": [NAMED]}
    choice = create(sdk, tool_choice={"type": "allowed_tools", "allowed_tools": allowed}).choices[0]
    assert [call.function.name for call in choice.message.tool_calls] == ["now"]


@pytest.mark.parametrize("tool_choice", ["none", "auto"])
def test_nothing_is_called_where_nothing_need_be(sdk: openai.OpenAI, tool_choice: str) -> None:
    choice = create(sdk, tool_choice=tool_choice).choices[0]
    assert choice.finish_reason == "stop"
    assert choice.message.content
    assert choice.message.tool_calls is None


def test_a_stream_holds_the_same_calls(sdk: openai.OpenAI) -> None:
    whole = create(sdk, tool_choice="required").choices[0].message.tool_calls[0]
    with sdk.chat.completions.stream(
        model=MODEL,
        messages=QUESTION,
        tools=[WEATHER, NOW],
        tool_choice="required",
        parallel_tool_calls=False,
        temperature=0,
        max_tokens=300,
    ) as stream:
        kinds = {event.type for event in stream}
        message = stream.get_final_completion().choices[0].message
    assert "tool_calls.function.arguments.delta" in kinds
    assert message.tool_calls is not None
    (streamed,) = message.tool_calls
    assert (streamed.function.name, streamed.function.arguments) == (whole.function.name, whole.function.arguments)
    assert streamed.id.startswith("call_")


def test_deltas_have_index_and_name_the_call_once(demo_platform: RunningPlatform) -> None:
    body = {"model": MODEL, "messages": QUESTION, "tools": [WEATHER], "tool_choice": "required", "stream": True}
    deltas: list[Any] = []
    with httpx2.stream("POST", f"{demo_platform.http}/v1/chat/completions", json=body | {"max_tokens": 60}) as response:
        for line in response.iter_lines():
            if line.startswith("data: {"):
                deltas += json.loads(line[6:])["choices"][0]["delta"].get("tool_calls", [])
    assert deltas
    for delta in deltas:
        assert isinstance(delta["index"], int)
        assert isinstance(delta["function"]["arguments"], str)
    first = [delta for delta in deltas if "id" in delta]
    assert len({delta["id"] for delta in first}) == len({delta["index"] for delta in deltas})
    assert all(("name" in delta["function"]) == ("id" in delta) for delta in deltas)


def test_the_sdk_parses_arguments_into_a_model(sdk: openai.OpenAI) -> None:
    completion = sdk.chat.completions.parse(
        model=MODEL,
        messages=QUESTION,
        tools=[openai.pydantic_function_tool(Place)],
        tool_choice="required",
        parallel_tool_calls=False,
    )
    calls = completion.choices[0].message.tool_calls
    assert calls
    assert isinstance(calls[0].function.parsed_arguments, Place)


def test_an_agents_loop_ends_in_an_answer(sdk: openai.OpenAI) -> None:
    messages = asyncio.run(_agent(str(sdk.base_url)))
    assert len(messages) == 4
    assert messages[-1].content


async def _agent(url: str) -> list[Any]:
    """Calls a tool, hands its result back with the history as the SDK has it, and reads the answer."""
    messages = list(QUESTION)
    async with openai.AsyncOpenAI(base_url=url, api_key="none") as client:
        for tool_choice in ("required", "none"):
            given: Any = {"messages": messages, "tools": [WEATHER], "tool_choice": tool_choice}
            answer = await client.chat.completions.create(
                model=MODEL, parallel_tool_calls=False, temperature=0, max_tokens=200, **given
            )
            message = answer.choices[0].message
            messages.append(message)
            messages += [
                {"role": "tool", "tool_call_id": call.id, "content": "sunny, 21 degrees"}
                for call in message.tool_calls or []
            ]
    return messages


def test_tools_and_results_are_told_to_the_model(demo_platform: RunningPlatform) -> None:
    called = {"id": "c1", "type": "function", "function": {"name": "now", "arguments": "{}"}}
    history = [
        *QUESTION,
        {"role": "assistant", "content": None, "tool_calls": [called]},
        {"role": "tool", "tool_call_id": "c1", "content": "half past nine"},
    ]
    with httpx2.Client(base_url=demo_platform.http) as http:
        tokens = http.post("/tokenize", json={"model": MODEL, "messages": history}).json()["tokens"]
        text = http.post("/detokenize", json={"model": MODEL, "tokens": tokens}).json()["prompt"]
    assert '{"name": "now", "arguments": {}}' in text
    assert "half past nine" in text


def test_arguments_follow_random_schemas_however_small_the_model(sdk: openai.OpenAI) -> None:
    asyncio.run(_check_random_schemas(str(sdk.base_url)))


async def _check_random_schemas(url: str) -> None:
    source = random.Random(12)
    waiting = iter([(number, random_schema(source)) for number in range(2 * SCHEMA_COUNT)])
    async with openai.AsyncOpenAI(base_url=url, api_key="none", max_retries=0) as client:

        async def work() -> None:
            for number, schema in waiting:
                await _check_schema(client, number, schema)

        await asyncio.gather(*(work() for _ in range(AT_ONCE)))


async def _check_schema(client: openai.AsyncOpenAI, number: int, schema: dict[str, Any]) -> None:
    parameters = {"type": "object", "properties": {"v": schema}, "required": ["v"], "additionalProperties": False}
    tool = {"type": "function", "function": {"name": "take", "parameters": parameters, "strict": True}}
    given: Any = {
        "model": MODEL,
        "messages": QUESTION,
        "tools": [tool],
        "tool_choice": {"type": "function", "function": {"name": "take"}},
        "parallel_tool_calls": False,
        "seed": number,
        "temperature": 1.0,
        "max_tokens": 1000,
    }
    if number % 2:
        async with client.chat.completions.stream(**given) as stream:
            choice = (await stream.get_final_completion()).choices[0]
    else:
        choice = (await client.chat.completions.create(**given)).choices[0]
    assert choice.finish_reason == "tool_calls", schema
    (call,) = choice.message.tool_calls or []
    jsonschema.validate(json.loads(call.function.arguments), parameters)


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"tools": [], "tool_choice": "required"}, "tool_choice needs tools"),
        ({"tool_choice": {"type": "function", "function": {"name": "absent"}}}, "absent, which is not among the tools"),
        ({"tools": [NOW, NOW]}, "several tools of the name now"),
        ({"tools": [{"type": "custom", "custom": {"name": "c"}}]}, "only tools of the type function"),
        ({"tools": [{"type": "function", "function": {"name": "no spaces"}}]}, "tools.0"),
        ({"tools": [WEATHER], "guided_grammar": "start: /a/"}, "guided_grammar cannot be combined"),
        ({"messages": [{"role": "tool", "content": "x"}]}, "tool_call_id"),
        ({"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {}}]}]}, "read text only"),
        ({"functions": [{"name": "f"}]}, "functions is not supported"),
    ],
)
def test_a_mistake_is_named(sdk: openai.OpenAI, fields: dict[str, Any], says: str) -> None:
    extra = {name: fields.pop(name) for name in ("guided_grammar", "functions") if name in fields}
    with pytest.raises(openai.BadRequestError, match=says):
        create(sdk, **fields, extra_body=extra)


def test_a_strict_schema_that_cannot_be_followed_is_refused(sdk: openai.OpenAI) -> None:
    parameters = {"type": "object", "properties": {"a": {"not": {"type": "string"}}}}
    tool = {"type": "function", "function": {"name": "t", "parameters": parameters}}
    assert create(sdk, tools=[tool], tool_choice="required", max_tokens=30)
    strict = {"type": "function", "function": {"name": "t", "parameters": parameters, "strict": True}}
    with pytest.raises(openai.BadRequestError, match="not") as refused:
        create(sdk, tools=[strict])
    assert refused.value.param == "tools"


def test_grpc_calls_tools_too(demo_platform: RunningPlatform) -> None:
    tool = inference_pb2.Tool(name="now", parameters=json.dumps({"type": "object", "properties": {}}))
    given: dict[str, Any] = {
        "model": MODEL,
        "messages": [ChatMessage(role="user", content="What time is it?")],
        "tools": [tool],
        "tool_choice": inference_pb2.TOOL_CHOICE_REQUIRED,
        "parallel_tool_calls": False,
    }
    with grpc.insecure_channel(demo_platform.grpc) as channel:
        stub = inference_pb2_grpc.InferenceServiceStub(channel)
        result = stub.Chat(inference_pb2.ChatRequest(**given), timeout=60).result
        events = list(stub.StreamChat(inference_pb2.StreamChatRequest(**given), timeout=60))
    (call,) = result.tool_calls
    assert (call.name, json.loads(call.arguments)) == ("now", {})
    deltas = [delta for event in events for delta in event.chunk.tool_calls]
    assert "".join(delta.arguments for delta in deltas) == call.arguments
