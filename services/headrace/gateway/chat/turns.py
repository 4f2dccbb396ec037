"""Turns of a conversation, as the chat template of every model takes them."""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import groupby

from headrace.domain.message import Message

_ABOVE = ("system", "developer")
"""Roles of instructions, which most templates take as one message, and only before all others."""


def in_turns(messages: Iterable[Message]) -> tuple[Message, ...]:
    """Returns messages with all instructions joined before them, and consecutive ones of one speaker as one: clients
    send instructions in the middle, and split what was said at once into several messages."""
    given = list(messages)
    above = [message for message in given if message.role in _ABOVE]
    said = [message for message in given if message.role not in _ABOVE]
    return (*_instructions(above), *_turns(said))


def _instructions(above: list[Message]) -> tuple[Message, ...]:
    text = "\n\n".join(message.content for message in above if message.content)
    role = "system" if any(message.role == "system" for message in above) else "developer"
    return (Message(role, text),) if text else ()


def _turns(said: list[Message]) -> Iterator[Message]:
    for (role, _), group in groupby(said, lambda message: (message.role, message.name)):
        if role in ("user", "assistant"):
            yield _joined(list(group))
        else:
            yield from group


def _joined(parts: list[Message]) -> Message:
    if len(parts) == 1:
        return parts[0]
    separator = "\n\n" if parts[0].role == "user" else ""
    return replace(
        parts[0],
        content=separator.join(part.content for part in parts if part.content),
        tool_calls=tuple(call for part in parts for call in part.tool_calls),
        reasoning="".join(part.reasoning for part in parts),
    )
