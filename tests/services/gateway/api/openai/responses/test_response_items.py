"""Items of a history of the Responses API, translated or left out and named."""

from typing import Any

import pytest

from headrace.domain.message import Message
from headrace.domain.tool_call import ToolCall
from headrace.errors import InvalidRequest, Unsupported
from headrace.gateway.api.openai.responses.response_items import item_messages, left_out_items

TEXT = [{"type": "input_text", "text": "t"}]


def call(call_id: str, name: str, arguments: str) -> Message:
    return Message("assistant", tool_calls=(ToolCall(call_id, name, arguments),))


@pytest.mark.parametrize(
    ("item", "messages"),
    [
        ({"role": "user", "content": "t"}, [Message("user", "t")]),
        ({"type": "message", "role": "developer", "content": TEXT}, [Message("developer", "t")]),
        ({"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"}, [call("c", "f", "{}")]),
        (
            {"type": "function_call", "call_id": "c", "name": "f", "namespace": "n", "arguments": "{}"},
            [call("c", "n__f", "{}")],
        ),
        ({"type": "function_call_output", "call_id": "c", "output": TEXT}, [Message("tool", "t", tool_call_id="c")]),
        (
            {"type": "custom_tool_call", "call_id": "c", "name": "patch", "input": "*** x"},
            [call("c", "patch", '{"input": "*** x"}')],
        ),
        ({"type": "custom_tool_call_output", "call_id": "c", "output": "t"}, [Message("tool", "t", tool_call_id="c")]),
        (
            {"type": "local_shell_call", "call_id": "c", "id": "i", "action": {"type": "exec", "command": ["ls"]}},
            [call("c", "local_shell", '{"type": "exec", "command": ["ls"]}')],
        ),
        ({"type": "local_shell_call_output", "id": "i", "output": "a"}, [Message("tool", "a", tool_call_id="i")]),
        (
            {"type": "shell_call_output", "call_id": "c", "output": [{"stdout": "a"}]},
            [Message("tool", '[{"stdout": "a"}]', tool_call_id="c")],
        ),
        ({"type": "tool_search_call", "call_id": "c", "arguments": {"q": 1}}, [call("c", "tool_search", '{"q": 1}')]),
        ({"type": "tool_search_output", "call_id": "c", "tools": []}, [Message("tool", "[]", tool_call_id="c")]),
        (
            {"type": "mcp_call", "id": "i", "name": "f", "arguments": "{}", "output": "o"},
            [call("i", "f", "{}"), Message("tool", "o", tool_call_id="i")],
        ),
        ({"type": "reasoning", "summary": [], "content": None, "encrypted_content": "x"}, []),
        (
            {"type": "reasoning", "summary": [{"type": "summary_text", "text": "why"}]},
            [Message("assistant", reasoning="why")],
        ),
        (
            {"type": "agent_message", "author": "a", "content": [*TEXT, {"type": "encrypted_content"}]},
            [Message("user", "t", "a")],
        ),
        ({"type": "additional_tools", "tools": []}, []),
    ],
)
def test_an_item_becomes_what_a_template_reads(item: dict[str, Any], messages: list[Message]) -> None:
    assert item_messages(item, 0) == messages
    assert left_out_items([item]) == []


@pytest.mark.parametrize(
    "kind", ["compaction", "context_compaction", "item_reference", "web_search_call", "file_search_call"]
)
def test_an_item_that_only_openai_can_read_is_left_out_and_named(kind: str) -> None:
    item = {"type": kind, "id": "x", "encrypted_content": "x"}
    assert item_messages(item, 0) == []
    assert left_out_items([item, item]) == [f"input.{kind}"]


def test_an_item_with_an_id_alone_is_a_reference() -> None:
    assert left_out_items([{"id": "msg_1"}]) == ["input.item_reference"]


@pytest.mark.parametrize("kind", ["no_such_item", 7, ["list"]])
def test_other_types_stay_an_error(kind: Any) -> None:
    with pytest.raises(Unsupported, match="is not supported"):
        item_messages({"type": kind}, 0)


@pytest.mark.parametrize(
    "item", [{"type": "custom_tool_call", "call_id": "c", "name": "p"}, {"type": "local_shell_call"}]
)
def test_what_an_item_lacks_is_named(item: dict[str, Any]) -> None:
    with pytest.raises(InvalidRequest, match=r"input\.3\.(input|id) must be a string"):
        item_messages(item, 3)
