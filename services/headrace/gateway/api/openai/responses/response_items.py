"""Translates input items of the Responses API: messages, calls of tools and what came back, reasoning."""

import json
from collections.abc import Sequence
from typing import Any

from headrace.domain.message import Message
from headrace.domain.tool_call import ToolCall
from headrace.errors import InvalidRequest, Unsupported
from headrace.gateway.api.openai.fields.message_fields import ROLES
from headrace.gateway.api.openai.responses.response_tools import FunctionName

ITEM_REFERENCE = "item_reference"
_TEXT_PARTS = {"input_text": "text", "output_text": "text", "text": "text", "refusal": "refusal"}
_LEFT_OUT = frozenset(
    {
        *("compaction", "compaction_summary", "compaction_trigger", "context_compaction", "ghost_snapshot"),
        *("code_interpreter_call", "file_search_call", "image_generation_call", "web_search_call"),
        *("mcp_approval_request", "mcp_approval_response", "mcp_list_tools"),
        ITEM_REFERENCE,
    }
)
"""Types of items that only OpenAI can read, or whose result stands in a message beside them."""
_SILENT = frozenset({"additional_tools"})
"""Types of items that say nothing to the model themselves."""
_CALLS = {
    "apply_patch_call": "apply_patch",
    "computer_call": "computer",
    "local_shell_call": "local_shell",
    "shell_call": "shell",
    "tool_search_call": "tool_search",
}
"""Names of the tools that each have a type of items for their calls."""
_ARGUMENTS = ("action", "actions", "operation", "arguments")
"""Fields of such an item that say what to do."""
_RESULTS = frozenset({f"{kind}_output" for kind in _CALLS} | {"tool_search_output"})


def left_out_items(items: str | Sequence[dict[str, Any]]) -> list[str]:
    """Names the types of items that a request is answered without."""
    kinds = [kind_of(item) for item in (() if isinstance(items, str) else items)]
    return [f"input.{kind}" for kind in dict.fromkeys(kinds) if kind in _LEFT_OUT]


def kind_of(item: dict[str, Any]) -> str:
    """Returns the type of an item. One that has only an id refers to another."""
    kind = item.get("type")
    if kind is None:
        return ITEM_REFERENCE if "id" in item and "role" not in item else "message"
    return kind if isinstance(kind, str) else ""


def item_messages(item: dict[str, Any], index: int) -> list[Message]:
    """Returns the messages that an item stands for. Raises InvalidRequest."""
    where, kind = f"input.{index}", kind_of(item)
    match kind:
        case "message":
            return [_message(item, where)]
        case "function_call" | "custom_tool_call" | "mcp_call":
            return _named_call(item, kind, where)
        case "function_call_output" | "custom_tool_call_output":
            return [Message("tool", _content(item.get("output"), where), tool_call_id=_text(item, "call_id", where))]
        case "reasoning":
            return _reasoning(item)
        case "agent_message":
            return [Message("user", _content(_readable(item.get("content")), where), str(item.get("author") or ""))]
        case _ if kind in _CALLS:
            arguments: Any = next((item[name] for name in _ARGUMENTS if item.get(name) is not None), {})
            return [_calling(_id_of(item, where), _CALLS[kind], _as_object(arguments))]
        case _ if kind in _RESULTS:
            output = item.get("output", item.get("tools"))
            text = output if isinstance(output, str) else _dumped(output)
            return [Message("tool", text, tool_call_id=_id_of(item, where))]
        case _ if kind in _LEFT_OUT | _SILENT:
            return []
    raise Unsupported(f"{where} is of the type {item.get('type')!r}, which is not supported", param="input")


def _message(item: dict[str, Any], where: str) -> Message:
    role = _text(item, "role", where)
    if role not in ROLES:
        raise InvalidRequest(f"{where}.role must be one of {', '.join(ROLES)}", param="input")
    return Message(role, _content(item.get("content"), where))


def _named_call(item: dict[str, Any], kind: str, where: str) -> list[Message]:
    """Returns the call of a tool that the item names, and its result where the item holds that too."""
    name = FunctionName(_text(item, "name", where), item.get("namespace") or "").whole
    if kind == "custom_tool_call":
        return [_calling(_id_of(item, where), name, _dumped({"input": _text(item, "input", where)}))]
    call = _calling(_id_of(item, where), name, _text(item, "arguments", where))
    if kind == "function_call":
        return [call]
    result = item.get("output") or item.get("error") or ""
    text = result if isinstance(result, str) else _dumped(result)
    return [call, Message("tool", text, tool_call_id=_id_of(item, where))]


def _calling(call_id: str, name: str, arguments: str) -> Message:
    return Message("assistant", tool_calls=(ToolCall(call_id, name, arguments),))


def _id_of(item: dict[str, Any], where: str) -> str:
    return _text(item, "call_id" if item.get("call_id") is not None else "id", where)


def _reasoning(item: dict[str, Any]) -> list[Message]:
    """Returns the reasoning that is there as text. Encrypted reasoning is another platform's."""
    parts = [*(item.get("content") or ()), *(item.get("summary") or ())]
    texts = [part["text"] for part in parts if isinstance(part, dict) and isinstance(part.get("text"), str)]
    return [Message("assistant", reasoning="\n".join(texts))] if texts else []


def _readable(content: Any) -> Any:
    if not isinstance(content, list):
        return content
    return [part for part in content if not (isinstance(part, dict) and part.get("type") == "encrypted_content")]


def _as_object(arguments: Any) -> str:
    """Returns arguments as the text of a JSON object."""
    return _dumped(arguments if isinstance(arguments, dict) else {"arguments": arguments})


def _dumped(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _text(item: dict[str, Any], name: str, where: str) -> str:
    value = item.get(name)
    if not isinstance(value, str):
        raise InvalidRequest(f"{where}.{name} must be a string", param="input")
    return value


def _content(content: Any, where: str) -> str:
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        raise InvalidRequest(f"{where} must have content: a string or a list of parts", param="input")
    texts = []
    for part in content:
        kind = part.get("type") if isinstance(part, dict) else None
        if kind not in _TEXT_PARTS:
            raise InvalidRequest(
                f"{where} has a part of the type {kind!r}; the models here read text only", param="input"
            )
        texts.append(_text(part, _TEXT_PARTS[kind], where))
    return "".join(texts)
