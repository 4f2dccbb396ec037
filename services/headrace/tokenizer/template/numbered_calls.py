"""Ids of calls in the history of a model that numbers them.

Kimi K2 writes functions.NAME:NUMBER, counts over the whole conversation, and sees the name of a function nowhere else:
https://huggingface.co/moonshotai/Kimi-K2-Instruct/blob/main/docs/tool_call_guidance.md
"""

from collections.abc import Sequence
from dataclasses import replace

from headrace.domain.call_number import free_id, is_numbered
from headrace.domain.message import Message
from headrace.domain.tool_call import ToolCall

KIMI = "kimi-k2"
"""Name of the syntax."""


def numbered(messages: Sequence[Message]) -> list[Message]:
    """Returns messages in which calls of other models, and their results, have ids of this form too."""
    names = _Names(messages)
    return [
        replace(
            message,
            tool_calls=tuple(map(names.of_call, message.tool_calls)),
            tool_call_id=names.of_result(message.tool_call_id),
        )
        for message in messages
    ]


class _Names:
    """New ids, in the order of the calls."""

    def __init__(self, messages: Sequence[Message]) -> None:
        calls = [call for message in messages for call in message.tool_calls]
        self._taken = {call.id for call in calls if is_numbered(call.id, call.name)}
        self._count = 0
        self._by_given: dict[str, str] = {}

    def of_call(self, call: ToolCall) -> ToolCall:
        found = call.id if is_numbered(call.id, call.name) else free_id(call.name, self._count, self._taken)
        self._count += 1
        self._taken.add(found)
        self._by_given[call.id] = found
        return replace(call, id=found)

    def of_result(self, given: str) -> str:
        """Returns the id of the call that was the last with an id."""
        return self._by_given.get(given, given)
