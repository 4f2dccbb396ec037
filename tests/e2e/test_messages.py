"""Anthropic's Messages API through Anthropic's SDK: whole, streamed, with tools, counted, refused.

The SDK is imported where it is used: it takes two seconds, in each process that collects the tests.
"""

from collections.abc import Iterator
from typing import Any

import httpx2
import pytest
from tests.harness.running_platform import RunningPlatform

MODEL = "headrace-demo"
QUESTION: list[Any] = [{"role": "user", "content": "What is continuous batching?"}]
GREEDY = {"temperature": 0}
"""Field that this version of the SDK does not name."""
TOOL: dict[str, Any] = {
    "name": "get_weather",
    "description": "Tells the weather",
    "input_schema": {
        "type": "object",
        "properties": {"city": {"type": "string", "maxLength": 12}},
        "required": ["city"],
    },
}


@pytest.fixture
def sdk(demo_platform: RunningPlatform) -> Iterator[Any]:
    import anthropic

    with anthropic.Anthropic(base_url=demo_platform.http, api_key="none", max_retries=0) as client:
        yield client


def create(sdk: Any, **fields: Any) -> Any:
    given: dict[str, Any] = {"model": MODEL, "messages": QUESTION, "max_tokens": 200, "extra_body": GREEDY}
    return sdk.messages.create(**given | fields)


def test_a_message_says_what_chat_says(sdk: Any, demo_platform: RunningPlatform) -> None:
    body = {"model": MODEL, "messages": QUESTION, "temperature": 0, "max_tokens": 200}
    chat = httpx2.post(f"{demo_platform.http}/v1/chat/completions", json=body, timeout=60).json()
    message = create(sdk)
    assert message.content[0].text == chat["choices"][0]["message"]["content"]
    assert message.stop_reason == "end_turn"
    assert message.usage.output_tokens == chat["usage"]["completion_tokens"]
    assert message.usage.input_tokens + message.usage.cache_read_input_tokens == chat["usage"]["prompt_tokens"]


def test_a_stream_adds_up_to_the_same_message(sdk: Any) -> None:
    whole = create(sdk)
    with sdk.messages.stream(model=MODEL, messages=QUESTION, max_tokens=200, extra_body=GREEDY) as stream:
        text = "".join(stream.text_stream)
        message = stream.get_final_message()
    assert text == whole.content[0].text == message.content[0].text
    assert message.stop_reason == "end_turn"
    assert message.usage.output_tokens == whole.usage.output_tokens


@pytest.mark.parametrize("choice", [{"type": "any"}, {"type": "tool", "name": "get_weather"}])
def test_a_tool_is_used_and_its_result_answered(sdk: Any, choice: dict[str, Any]) -> None:
    choice = choice | {"disable_parallel_tool_use": True}
    first = create(sdk, tools=[TOOL], tool_choice=choice)
    assert first.stop_reason == "tool_use"
    (use,) = first.content
    assert use.type == "tool_use"
    assert set(use.input) <= {"city"}
    result = {"type": "tool_result", "tool_use_id": use.id, "content": [{"type": "text", "text": "sunny"}]}
    history = [*QUESTION, {"role": "assistant", "content": first.content}, {"role": "user", "content": [result]}]
    second = create(sdk, messages=history, tools=[TOOL], tool_choice={"type": "none"})
    assert second.content[0].text


def test_a_streamed_tool_use_has_its_input(sdk: Any) -> None:
    fields: Any = {"tools": [TOOL], "tool_choice": {"type": "any", "disable_parallel_tool_use": True}}
    with sdk.messages.stream(model=MODEL, messages=QUESTION, max_tokens=200, extra_body=GREEDY, **fields) as stream:
        kinds = [event.type for event in stream]
        (use,) = stream.get_final_message().content
    assert "input_json" in kinds
    assert use.type == "tool_use"
    assert use.input


def test_stop_sequences_and_limits_are_told_apart(sdk: Any) -> None:
    word = create(sdk).content[0].text.split()[2]
    stopped = create(sdk, stop_sequences=[word])
    assert (stopped.stop_reason, stopped.stop_sequence) == ("stop_sequence", word)
    assert create(sdk, max_tokens=3).stop_reason == "max_tokens"


def test_a_form_is_followed(sdk: Any) -> None:
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    form = {"format": {"type": "json_schema", "schema": schema | {"additionalProperties": False}}}
    assert create(sdk, output_config=form).content[0].text.startswith("{")


def test_tokens_are_counted_as_they_are_charged(sdk: Any) -> None:
    given: Any = {"messages": QUESTION, "system": "Be brief.", "tools": [TOOL]}
    message = create(sdk, **given)
    counted = sdk.messages.count_tokens(model=MODEL, **given).input_tokens
    assert counted == message.usage.input_tokens + message.usage.cache_read_input_tokens


@pytest.mark.parametrize(
    ("fields", "kind", "says"),
    [
        ({"model": "absent"}, "NotFoundError", "absent"),
        ({"max_tokens": 0}, "BadRequestError", "max_tokens"),
        ({"messages": [{"role": "user", "content": [{"type": "image"}]}]}, "BadRequestError", "read text only"),
        (
            {"tools": [{"type": "web_search_20250305", "name": "w"}], "tool_choice": {"type": "tool", "name": "w"}},
            "BadRequestError",
            "tool_choice",
        ),
    ],
)
def test_errors_have_anthropics_shape(sdk: Any, fields: dict[str, Any], kind: str, says: str) -> None:
    import anthropic

    with pytest.raises(getattr(anthropic, kind), match=says) as refused:
        create(sdk, **fields)
    body: Any = refused.value.body
    assert body["type"] == "error"
    assert body["error"]["type"] in ("not_found_error", "invalid_request_error")
    assert refused.value.request_id
