"""A session of Claude Code over the Messages API: a question, tools and their results, notes in between, a summary."""

from typing import Any

from tests.conformance.case import MODEL
from tests.conformance.turn import Json, Turn

_PATH = "/v1/messages"
HEADERS = {
    "anthropic-version": "2023-06-01",
    "anthropic-beta": "claude-code-20250219,interleaved-thinking-2025-05-14,context-management-2025-06-27",
    "user-agent": "claude-cli/2.1.160 (external, cli)",
    "x-app": "cli",
}
_SHORT = {"type": "ephemeral"}
_LONG = {"type": "ephemeral", "ttl": "1h"}


def _text(text: str, **fields: Any) -> Json:
    return {"type": "text", "text": text} | fields


def _tool(name: str, parameter: str, **fields: Any) -> Json:
    schema = {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "type": "object",
        "properties": {parameter: {"type": "string", "maxLength": 12, "description": "d"}},
        "required": [parameter],
        "additionalProperties": False,
    }
    return {"name": name, "description": f"{name} in the project", "input_schema": schema} | fields


TOOLS = [
    _tool("Bash", "command", type="custom", eager_input_streaming=True),
    _tool("Read", "path", strict=False, input_examples=[{"path": "a.py"}]),
    _tool("Notes", "key", defer_loading=True, cache_control=_LONG),
]
_SEARCH = {"type": "web_search_20250305", "name": "web_search", "max_uses": 8}
_FIND = {"type": "tool_search_tool_regex_20251119", "name": "tool_search_tool_regex"}
_BASE: Json = {
    "model": MODEL,
    "max_tokens": 32000,
    "temperature": 1,
    "metadata": {"user_id": "user_0_account__session_0"},
    "system": [_text("You write code.", cache_control=_LONG), _text("The folder is empty.", cache_control=_SHORT)],
    "thinking": {"type": "adaptive"},
    "output_config": {"effort": "medium"},
    "context_management": {"edits": [{"type": "clear_thinking_20251015", "keep": "all"}]},
    "tools": TOOLS,
}
ASKED = {
    "role": "user",
    "content": [_text("<system-reminder>Be brief.</system-reminder>"), _text("Fix it.", cache_control=_SHORT)],
}
CALLED = {
    "role": "assistant",
    "content": [
        {"type": "thinking", "thinking": "I look first.", "signature": ""},
        {"type": "redacted_thinking", "data": "xyz"},
        _text("I look."),
        {"type": "tool_use", "id": "toolu_1", "name": "Bash", "input": {"command": "ls"}},
        {"type": "tool_use", "id": "toolu_2", "name": "Read", "input": {"path": "a.py"}, "caller": {"type": "direct"}},
    ],
}
RESULTS = {
    "role": "user",
    "content": [
        {"type": "tool_result", "tool_use_id": "toolu_1", "content": "a.py", "is_error": False},
        {"type": "tool_result", "tool_use_id": "toolu_2", "content": [_text("x = 1", cache_control=_SHORT)]},
        _text("Go on."),
    ],
}
NOTE = {"role": "system", "content": [_text("The user opened a.py.")]}
SEARCHED = {
    "role": "assistant",
    "content": [
        {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "q"}},
        {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": [{"type": "web_search_result"}]},
        _text("It is known."),
    ],
}
FOUND = {
    "role": "user",
    "content": [
        {"type": "tool_result", "tool_use_id": "toolu_3", "content": [{"type": "tool_reference", "tool_name": "Notes"}]}
    ],
}
LOOKED = {
    "role": "assistant",
    "content": [{"type": "tool_use", "id": "toolu_3", "name": "ToolSearch", "input": {"query": "notes"}}],
}


def _turn(title: str, *messages: Json, ignored: str = "", counts: int | None = None, **fields: Any) -> Turn:
    return Turn(title, _PATH, _BASE | {"messages": list(messages)} | fields, ignored, counts)


CLAUDE_CODE = [
    _turn("a first request for one token", {"role": "user", "content": "quota"}, max_tokens=1, tools=[], thinking=None),
    _turn(
        "a title in a given form",
        ASKED,
        tools=[],
        thinking={"type": "disabled"},
        output_config={
            "format": {
                "type": "json_schema",
                "schema": {
                    "type": "object",
                    "properties": {"title": {"type": "string", "maxLength": 9}},
                    "required": ["title"],
                    "additionalProperties": False,
                },
            }
        },
    ),
    _turn("a question with tools", ASKED, thinking={"type": "enabled", "budget_tokens": 1024, "display": "omitted"}),
    _turn("calls and their results", ASKED, CALLED, RESULTS),
    _turn(
        "a system message in the middle", ASKED, CALLED, RESULTS, {"role": "assistant", "content": "Done."}, NOTE, ASKED
    ),
    _turn("a system message at the beginning", NOTE, ASKED),
    _turn("a system message at the end", ASKED, {"role": "assistant", "content": "Done."}, ASKED, NOTE),
    _turn(
        "tools that Anthropic's platform runs",
        ASKED,
        SEARCHED,
        ASKED,
        tools=[_SEARCH, _FIND, *TOOLS],
        ignored="tools.web_search_20250305, tools.tool_search_tool_regex_20251119",
    ),
    _turn("a tool that was found", ASKED, LOOKED, FOUND),
    _turn(
        "edits of the context, and empty fields",
        ASKED,
        context_management={"edits": [{"type": "clear_tool_uses_20250919", "keep": {"type": "tool_uses", "value": 3}}]},
        mcp_servers=[],
        container=None,
        ignored="context_management",
    ),
    _turn("a tool that must be called", ASKED, tool_choice={"type": "tool", "name": "Bash"}, counts=1, max_tokens=200),
    _turn("no tool, by the choice", ASKED, tool_choice={"type": "none"}, max_tokens=60),
    _turn(
        "the beginning of an answer", ASKED, {"role": "assistant", "content": "The summary:"}, tools=None, max_tokens=60
    ),
]
COUNTED = {
    name: value for name, value in CLAUDE_CODE[4].body.items() if name not in ("max_tokens", "temperature", "metadata")
}
"""Body of a count of tokens."""
