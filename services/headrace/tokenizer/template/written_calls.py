"""Calls of tools in the text of an answer, for chat templates that show no calls."""

import json
from collections.abc import Mapping
from typing import Any

from headrace.domain.message import Message
from headrace.domain.tool_call import ToolCall

CALL_START, CALL_END = "<tool_call>\n", "\n</tool_call>"
LFM2 = "lfm2"
"""Syntax of LFM2 and LFM2.5: one list of Python calls before the text. Their templates take it as content."""
_LFM2_START, _LFM2_END = "<|tool_call_start|>[", "]<|tool_call_end|>"


def answer_with_calls(message: Message, syntax: str) -> str:
    """Writes an answer and the calls in it in a syntax of AnswerFormat: in LFM2's, or else in the one that models are
    instructed to use."""
    if syntax == LFM2:
        return _LFM2_START + ", ".join(map(_python_call, message.tool_calls)) + _LFM2_END + message.content
    calls = [
        CALL_START + json.dumps({"name": call.name, "arguments": parsed(call.arguments)}, ensure_ascii=False) + CALL_END
        for call in message.tool_calls
    ]
    return "\n".join([message.content, *calls] if message.content else calls)


def parsed(arguments: str) -> Any:
    """Returns the arguments of a call as templates expect them: as an object, or as text where they are none."""
    try:
        return json.loads(arguments) if arguments else {}
    except (ValueError, RecursionError):
        return arguments


def _python_call(call: ToolCall) -> str:
    arguments = parsed(call.arguments)
    if not isinstance(arguments, Mapping):
        return f"{call.name}({call.arguments})"
    return f"{call.name}({', '.join(f'{name}={_literal(value)}' for name, value in arguments.items())})"


def _literal(value: Any) -> str:
    """Writes a JSON value as a literal of Python, with texts in double quotes."""
    match value:
        case str():
            return json.dumps(value, ensure_ascii=False)
        case list():
            return f"[{', '.join(map(_literal, value))}]"
        case dict():
            return "{" + ", ".join(f"{_literal(name)}: {_literal(each)}" for name, each in value.items()) + "}"
    return repr(value)
