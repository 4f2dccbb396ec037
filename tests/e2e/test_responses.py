"""The Responses API through OpenAI's SDK: whole, streamed, continued, stored, in the background, refused."""

import json
import time
from collections.abc import Iterator
from typing import Any

import httpx2
import openai
import pytest
from pydantic import BaseModel, Field
from tests.harness.running_platform import RunningPlatform

MODEL = "headrace-demo"
QUESTION = "What is continuous batching?"
PATIENCE = 60.0
TOOL: dict[str, Any] = {
    "type": "function",
    "name": "get_weather",
    "parameters": {
        "type": "object",
        "properties": {"city": {"type": "string", "maxLength": 12}},
        "required": ["city"],
        "additionalProperties": False,
    },
    "strict": True,
}


class Step(BaseModel):
    title: str = Field(max_length=12)
    minutes: int = Field(ge=0, le=90)


@pytest.fixture
def sdk(demo_platform: RunningPlatform) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=f"{demo_platform.http}/v1", api_key="none", max_retries=0) as client:
        yield client


def create(sdk: openai.OpenAI, **fields: Any) -> Any:
    given: dict[str, Any] = {"model": MODEL, "input": QUESTION, "temperature": 0, "max_output_tokens": 200}
    return sdk.responses.create(**given | fields)


def test_a_response_says_what_chat_says(sdk: openai.OpenAI) -> None:
    chat = sdk.chat.completions.create(
        model=MODEL, messages=[{"role": "user", "content": QUESTION}], temperature=0, max_tokens=200
    )
    response = create(sdk)
    assert response.status == "completed"
    assert response.output_text == chat.choices[0].message.content
    assert chat.usage is not None
    assert response.usage.output_tokens == chat.usage.completion_tokens
    assert response.usage.input_tokens == chat.usage.prompt_tokens


def test_a_stream_adds_up_to_the_same_response(sdk: openai.OpenAI) -> None:
    whole = create(sdk)
    with sdk.responses.stream(model=MODEL, input=QUESTION, temperature=0, max_output_tokens=200) as stream:
        events = list(stream)
        final = stream.get_final_response()
    assert final.output_text == whole.output_text
    assert final.usage is not None
    assert final.usage.output_tokens == whole.usage.output_tokens
    numbers = [event.sequence_number for event in events]
    assert numbers == sorted(numbers)
    kinds = [event.type for event in events]
    assert kinds[:4] == [
        "response.created",
        "response.in_progress",
        "response.output_item.added",
        "response.content_part.added",
    ]
    assert kinds[-4:] == [
        "response.output_text.done",
        "response.content_part.done",
        "response.output_item.done",
        "response.completed",
    ]


def test_the_sdk_parses_into_a_model(sdk: openai.OpenAI) -> None:
    response = sdk.responses.parse(model=MODEL, input=QUESTION, text_format=Step, temperature=0)
    assert isinstance(response.output_parsed, Step)


def test_an_agent_calls_and_goes_on_by_the_id_alone(sdk: openai.OpenAI) -> None:
    first = create(sdk, tools=[TOOL], tool_choice="required", parallel_tool_calls=False)
    (call,) = first.output
    assert call.type == "function_call"
    assert set(json.loads(call.arguments)) == {"city"}
    result = {"type": "function_call_output", "call_id": call.call_id, "output": "sunny"}
    second = create(sdk, input=[result], previous_response_id=first.id, tools=[TOOL], tool_choice="none")
    assert second.output_text
    assert second.previous_response_id == first.id
    by_hand = [{"role": "user", "content": QUESTION}, call.model_dump(), result]
    assert create(sdk, input=by_hand, tools=[TOOL], tool_choice="none").output_text == second.output_text


def test_a_streamed_call_is_whole(sdk: openai.OpenAI) -> None:
    fields: Any = {"tools": [TOOL], "tool_choice": "required", "parallel_tool_calls": False}
    with sdk.responses.stream(model=MODEL, input=QUESTION, temperature=0, **fields) as stream:
        deltas = "".join(event.delta for event in stream if event.type == "response.function_call_arguments.delta")
        (item,) = stream.get_final_response().output
    assert item.type == "function_call"
    assert deltas == item.arguments


def test_it_is_kept_shown_and_deleted(sdk: openai.OpenAI) -> None:
    made = create(sdk)
    assert sdk.responses.retrieve(made.id).output_text == made.output_text
    (item,) = sdk.responses.input_items.list(made.id).data
    assert item.type == "message"
    sdk.responses.delete(made.id)
    with pytest.raises(openai.NotFoundError, match="no response"):
        sdk.responses.retrieve(made.id)


def test_what_is_not_stored_is_not_found(sdk: openai.OpenAI) -> None:
    made = create(sdk, store=False)
    with pytest.raises(openai.NotFoundError):
        create(sdk, previous_response_id=made.id)


def test_instructions_do_not_carry_over(sdk: openai.OpenAI) -> None:
    first = create(sdk, instructions="Talk about nothing but Headrace. " * 10)
    plain = create(sdk)
    again, against = create(sdk, previous_response_id=first.id), create(sdk, previous_response_id=plain.id)
    assert abs(again.usage.input_tokens - against.usage.input_tokens) < 30


def test_a_background_response_is_fetched_when_it_is_done(sdk: openai.OpenAI) -> None:
    made = create(sdk, background=True)
    assert made.status == "queued"
    assert wait_for(sdk, made.id).output_text == create(sdk).output_text


def test_a_background_response_can_be_cancelled(sdk: openai.OpenAI) -> None:
    made = create(sdk, background=True, max_output_tokens=None, temperature=2.0)
    cancelled = sdk.responses.cancel(made.id)
    assert cancelled.status in ("cancelled", "completed")
    with pytest.raises(openai.BadRequestError, match="only a response in the background"):
        sdk.responses.cancel(create(sdk).id)


def test_a_background_response_that_fails_says_why(sdk: openai.OpenAI) -> None:
    made = create(sdk, input="word " * 5000, background=True)
    failed = wait_for(sdk, made.id)
    assert failed.status == "failed"
    assert "context" in failed.error.message


def test_a_cut_response_says_so(sdk: openai.OpenAI) -> None:
    response = create(sdk, max_output_tokens=3)
    assert response.status == "incomplete"
    assert response.incomplete_details.reason == "max_output_tokens"


def test_logprobs_and_counts(sdk: openai.OpenAI) -> None:
    response = create(sdk, include=["message.output_text.logprobs"], top_logprobs=2, max_output_tokens=5)
    logprobs = response.output[0].content[0].logprobs
    assert len(logprobs) == 5
    assert all(len(entry.top_logprobs) == 2 for entry in logprobs)
    assert sdk.responses.input_tokens.count(model=MODEL, input=QUESTION).input_tokens == response.usage.input_tokens


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"tools": [{"type": "web_search"}], "tool_choice": "required"}, "needs tools"),
        ({"conversation": "conv_1"}, "conversation is not supported"),
        ({"input": []}, "the input is empty"),
        ({"input": [{"type": "no_such_item", "id": "x"}]}, "no_such_item"),
        ({"input": [{"role": "user", "content": [{"type": "input_image", "image_url": "x"}]}]}, "read text only"),
        ({"include": ["file_search_call.results"]}, "file_search_call.results"),
        ({"background": True, "store": False}, "background is stored"),
        ({"extra_body": {"grammar": 'root ::= "a"'}}, "grammar is not supported"),
        ({"prompt": {"id": "p"}}, "prompt is not supported"),
    ],
)
def test_what_it_does_not_have_is_refused_by_name(sdk: openai.OpenAI, fields: dict[str, Any], says: str) -> None:
    with pytest.raises(openai.BadRequestError, match=says):
        create(sdk, **fields)


def test_a_missing_response_names_the_field(demo_platform: RunningPlatform) -> None:
    body = {"model": MODEL, "input": "a", "previous_response_id": "resp_none"}
    answer = httpx2.post(f"{demo_platform.http}/v1/responses", json=body)
    assert answer.status_code == 404
    assert answer.json()["error"]["param"] == "previous_response_id"


def wait_for(sdk: openai.OpenAI, response_id: str) -> Any:
    until = time.monotonic() + PATIENCE
    while time.monotonic() < until:
        found = sdk.responses.retrieve(response_id)
        if found.status not in ("queued", "in_progress"):
            return found
        time.sleep(0.05)
    raise AssertionError("the response did not end in time")
