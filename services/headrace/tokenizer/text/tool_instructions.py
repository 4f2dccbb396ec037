"""Tools in plain words, for models whose chat template says nothing of them."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from headrace.domain.message import Message

CALL_START, CALL_END = "<tool_call>\n", "\n</tool_call>"
_RESULT_START, _RESULT_END = "<tool_response>\n", "\n</tool_response>"


def instructions(tools: Sequence[Mapping[str, Any]]) -> str:
    """Tells a model what it may call, and in which form."""
    listed = "\n".join(json.dumps(tool["function"], ensure_ascii=False) for tool in tools)
    form = CALL_START + '{"name": NAME, "arguments": ARGUMENTS}' + CALL_END
    return (
        "You can call these functions, described as JSON:\n"
        f"{listed}\n"
        "To call one, write its name and a JSON object of its arguments in this form, once for each call:\n"
        f"{form}"
    )


def answer_with_calls(message: Message) -> str:
    """Writes an answer and the calls in it in the syntax that the model was instructed to use."""
    calls = [
        CALL_START + json.dumps({"name": call.name, "arguments": parsed(call.arguments)}, ensure_ascii=False) + CALL_END
        for call in message.tool_calls
    ]
    return "\n".join([message.content, *calls] if message.content else calls)


def result_of_call(message: Message) -> str:
    """Writes what a tool returned."""
    return f"{_RESULT_START}{message.content}{_RESULT_END}"


def parsed(arguments: str) -> Any:
    """Returns the arguments of a call as templates expect them: as an object, or as text where they are none."""
    try:
        return json.loads(arguments) if arguments else {}
    except (ValueError, RecursionError):
        return arguments
