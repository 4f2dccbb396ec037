"""Requests of the Messages API as Claude Code sends them, translated."""

import json
from typing import Any

import pytest

from headrace.domain.message import Message
from headrace.domain.tool_call import ToolCall
from headrace.errors import InvalidRequest, Unsupported
from headrace.gateway.api.anthropic.message_body import MessageBody
from headrace.gateway.api.anthropic.message_request import message_conversation, message_options
from headrace.gateway.api.entry.model_body import ignored_fields, parse

USER = {"role": "user", "content": "one"}
ANSWER = {"role": "assistant", "content": "hi"}
FUNCTION = {"name": "Bash", "input_schema": {"type": "object", "properties": {"command": {"type": "string"}}}}
SEARCH = {"type": "web_search_20250305", "name": "web_search", "max_uses": 8}


def read(**fields: Any) -> MessageBody:
    given = {"model": "m", "max_tokens": 32000, "messages": [USER]} | fields
    return parse(MessageBody, json.dumps(given).encode())


def messages(*given: dict[str, Any], **fields: Any) -> tuple[Message, ...]:
    return message_conversation(read(messages=list(given), **fields)).messages


@pytest.mark.parametrize("content", ["Be short.", [{"type": "text", "text": "Be short.", "cache_control": {}}]])
@pytest.mark.parametrize("place", [0, 1, 2])
def test_a_system_message_may_stand_anywhere(content: Any, place: int) -> None:
    given = [USER, ANSWER]
    given.insert(place, {"role": "system", "content": content})
    found = messages(*given, USER, system=[{"type": "text", "text": "You code.", "cache_control": {"ttl": "1h"}}])
    assert found[0] == Message("system", "You code.\n\nBe short.")
    assert [message.role for message in found[1:]] == ["user", "assistant", "user"]


def test_other_roles_stay_an_error() -> None:
    with pytest.raises(InvalidRequest, match=r"messages\.0\.role"):
        read(messages=[{"role": "critic", "content": "x"}])


@pytest.mark.parametrize(
    "value",
    [
        {},
        {"edits": []},
        {"edits": [{"type": "clear_thinking_20251015", "keep": "all"}]},
        {"edits": [{"type": "clear_thinking_20251015", "keep": {"type": "all"}}]},
    ],
)
def test_edits_that_ask_for_nothing_are_nothing(value: Any) -> None:
    assert ignored_fields(read(context_management=value), strict=True) == []


@pytest.mark.parametrize(
    "edit",
    [
        {"type": "clear_tool_uses_20250919", "trigger": {"type": "input_tokens", "value": 1}},
        {"type": "clear_thinking_20251015", "keep": {"type": "thinking_turns", "value": 1}},
        {"type": "compact_20260112"},
    ],
)
def test_other_edits_are_left_out_and_named(edit: Any) -> None:
    body = read(context_management={"edits": [edit]})
    assert ignored_fields(body, strict=False) == ["context_management"]
    with pytest.raises(Unsupported, match="context_management is not supported, and this gateway is strict"):
        ignored_fields(body, strict=True)


def test_tools_that_only_anthropic_runs_are_left_out_and_named() -> None:
    toolset = {"type": "mcp_toolset", "mcp_server_name": "files"}
    custom = FUNCTION | {"type": "custom", "strict": False, "defer_loading": True, "eager_input_streaming": True}
    body = read(tools=[SEARCH, SEARCH, custom | {"input_examples": [{"command": "ls"}]}, toolset])
    assert ignored_fields(body, strict=False) == ["tools.web_search_20250305", "tools.mcp_toolset"]
    assert [tool["function"]["name"] for tool in message_conversation(body).tools] == ["Bash"]


@pytest.mark.parametrize("choice", [{"type": "tool", "name": "web_search"}, {"type": "any"}])
def test_a_choice_of_a_tool_that_is_left_out_is_an_error(choice: dict[str, Any]) -> None:
    with pytest.raises(InvalidRequest) as refused:
        message_options(read(tools=[SEARCH], tool_choice=choice))
    assert refused.value.param == "tool_choice"


def test_a_tool_that_is_forced_is_called_once() -> None:
    forced = message_options(read(tools=[FUNCTION], tool_choice={"type": "tool", "name": "Bash"})).tool_use
    several = message_options(read(tools=[FUNCTION], tool_choice={"type": "any"})).tool_use
    assert forced is not None
    assert several is not None
    assert (forced.is_required, forced.allows_several) == (True, False)
    assert (several.is_required, several.allows_several) == (True, True)


def test_a_last_message_of_the_assistant_goes_on() -> None:
    conversation = message_conversation(read(messages=[USER, ANSWER]))
    assert conversation.continue_final_message
    assert conversation.messages[-1] == Message("assistant", "hi")


def test_an_empty_last_message_begins_nothing() -> None:
    conversation = message_conversation(read(messages=[USER, {"role": "assistant", "content": []}]))
    assert not conversation.continue_final_message
    assert conversation.messages == (Message("user", "one"),)


def test_calls_of_tools_cannot_go_on() -> None:
    use = {"type": "tool_use", "id": "t", "name": "Bash", "input": {}}
    assert not message_conversation(read(messages=[USER, ANSWER | {"content": [use]}])).continue_final_message


def test_tools_that_anthropic_ran_are_calls_and_results() -> None:
    found = {"type": "web_search_result", "url": "u"}
    blocks = [
        {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {"query": "q"}},
        {"type": "web_search_tool_result", "tool_use_id": "s", "content": [found]},
        {"type": "text", "text": "Found."},
    ]
    assert messages(USER, ANSWER | {"content": blocks}, USER)[1:4] == (
        Message("assistant", tool_calls=(ToolCall("s", "web_search", '{"query": "q"}'),)),
        Message("tool", json.dumps([found]), tool_call_id="s"),
        Message("assistant", "Found."),
    )


def test_results_may_hold_references_documents_and_search_results() -> None:
    content = [
        {"type": "tool_reference", "tool_name": "Read"},
        {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "a page"}},
        {"type": "search_result", "title": "T", "source": "s", "content": [{"type": "text", "text": "t"}]},
    ]
    result = {"type": "tool_result", "tool_use_id": "t", "content": content, "is_error": False}
    assert messages({"role": "user", "content": [result]}) == (Message("tool", "Read\na page\nT\nt", tool_call_id="t"),)


def test_effort_reaches_the_template() -> None:
    body = read(thinking={"type": "adaptive", "display": "omitted"}, output_config={"effort": "high", "format": None})
    assert message_conversation(body).template_arguments == {"enable_thinking": True, "reasoning_effort": "high"}
