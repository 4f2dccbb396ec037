"""A session of Codex over the Responses API: instructions, tools of all kinds, calls and outputs, other agents."""

from typing import Any

from tests.conformance.case import MODEL, RESPONSE
from tests.conformance.turn import Json, Turn

HEADERS = {"originator": "codex_cli_rs", "session_id": "s", "user-agent": "codex_cli_rs/0.99.0", "version": "0.99.0"}


def _function(name: str, parameter: str) -> Json:
    parameters = {
        "type": "object",
        "properties": {parameter: {"type": "string", "maxLength": 12}},
        "required": [parameter],
        "additionalProperties": False,
    }
    return {"type": "function", "name": name, "description": name, "strict": False, "parameters": parameters}


SHELL = _function("shell", "command")
SPACE = {"type": "namespace", "name": "mcp__files__", "description": "Files", "tools": [_function("read", "path")]}
_PATCH = {
    "type": "custom",
    "name": "apply_patch",
    "description": "Edits files",
    "format": {"type": "grammar", "syntax": "lark", "definition": 'start: "x"'},
}
_SEARCH = {"type": "web_search", "external_web_access": False}
_FIND = {"type": "tool_search", "execution": "client", "description": "Finds tools", "parameters": {"type": "object"}}
_ALL = "tools.custom, tools.web_search, tools.local_shell, tools.tool_search, tools.image_generation"
_BASE: Json = {
    "model": MODEL,
    "instructions": "You are a coding agent.",
    "tools": [SHELL, _PATCH, _SEARCH, {"type": "local_shell"}, _FIND, SPACE, {"type": "image_generation"}],
    "tool_choice": "auto",
    "parallel_tool_calls": True,
    "reasoning": {"effort": "medium", "summary": "auto"},
    "store": False,
    "stream": True,
    "include": ["reasoning.encrypted_content"],
    "prompt_cache_key": "0198-session",
    "client_metadata": {"x-codex-installation-id": "0198"},
    "text": {"verbosity": "low"},
    "max_output_tokens": 40,
}


def _said(role: str, text: str, **fields: Any) -> Json:
    kind = "output_text" if role == "assistant" else "input_text"
    return {"type": "message", "role": role, "content": [{"type": kind, "text": text}]} | fields


SETTING = [_said("developer", "<permissions>all</permissions>"), _said("user", "<environment>sh</environment>")]
ASKED = _said("user", "Fix it.")
REASONED: Json = {"type": "reasoning", "summary": [], "content": None, "encrypted_content": "gAAAA"}
CALLED = {"type": "function_call", "name": "shell", "arguments": '{"command": "ls"}', "call_id": "call_1"}
OUTPUT = {"type": "function_call_output", "call_id": "call_1", "output": "a.py"}
PATCHED = {
    "type": "custom_tool_call",
    "call_id": "call_2",
    "name": "apply_patch",
    "input": "*** x",
    "status": "completed",
}
APPLIED = {
    "type": "custom_tool_call_output",
    "call_id": "call_2",
    "output": [{"type": "input_text", "text": "Done"}],
}
RAN = {
    "type": "local_shell_call",
    "id": "lsh_1",
    "call_id": "call_3",
    "status": "completed",
    "action": {"type": "exec", "command": ["ls"], "timeout_ms": 9, "env": {}},
}
SHOWN = {"type": "local_shell_call_output", "call_id": "call_3", "output": "a.py"}
FOUND: list[Json] = [
    {"type": "tool_search_call", "call_id": "call_4", "execution": "client", "arguments": {"query": "notes"}},
    {"type": "tool_search_output", "call_id": "call_4", "status": "completed", "tools": [_function("notes", "key")]},
]
NAMED = CALLED | {"name": "read", "namespace": "mcp__files__", "call_id": "call_5", "arguments": '{"path": "a"}'}
NAMED_OUTPUT = OUTPUT | {"call_id": "call_5"}
ADDED = {"type": "additional_tools", "role": "developer", "tools": [_function("notes", "key"), SPACE, _SEARCH]}
TOLD = {
    "type": "agent_message",
    "author": "/root",
    "recipient": "/root/worker",
    "content": [
        {"type": "input_text", "text": "Look at a.py."},
        {"type": "encrypted_content", "encrypted_content": "x"},
    ],
}


def _turn(title: str, *items: Json, ignored: str = _ALL, counts: int | None = None, **fields: Any) -> Turn:
    return Turn(title, RESPONSE, _BASE | {"input": [*SETTING, ASKED, *items]} | fields, ignored, counts)


CODEX = [
    _turn("the first request"),
    _turn("a call and its output", REASONED, CALLED, OUTPUT),
    _turn("a call of a custom tool", PATCHED, APPLIED),
    _turn("a command in the local shell", RAN, SHOWN),
    _turn("instructions in the middle", _said("assistant", "Done.", phase="final"), _said("developer", "Stop."), ASKED),
    _turn("tools that were found", *FOUND),
    _turn("a call of a function in a namespace", NAMED, NAMED_OUTPUT),
    _turn("tools in the input", ADDED, ASKED),
    _turn("tools in the input, none", ADDED | {"tools": []}, ASKED),
    _turn("a message of another agent", TOLD),
    _turn(
        "a conversation that was made shorter elsewhere",
        {"type": "compaction", "encrypted_content": "gAAAA"},
        {"type": "web_search_call", "id": "ws_1", "status": "completed", "action": {"type": "search", "query": "q"}},
        {"type": "item_reference", "id": "msg_unknown"},
        ignored=f"{_ALL}, input.compaction, input.web_search_call, input.item_reference",
    ),
    _turn(
        "a function in a namespace that must be called",
        tool_choice={"type": "function", "name": "read"},
        counts=1,
        max_output_tokens=200,
    ),
    _turn("no reasoning, and the tier", reasoning=None, service_tier="priority", text=None),
]
