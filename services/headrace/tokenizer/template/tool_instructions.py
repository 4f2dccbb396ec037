"""Tools in plain words, for models whose chat template says nothing of them."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from headrace.domain.message import Message
from headrace.tokenizer.template.written_calls import CALL_END, CALL_START

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


def result_of_call(message: Message) -> str:
    """Writes what a tool returned."""
    return f"{_RESULT_START}{message.content}{_RESULT_END}"
