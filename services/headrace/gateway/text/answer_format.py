"""Form in which a model writes anything but plain text."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class AnswerFormat:
    """See `AnswerFormat` of the protocol."""

    tool_call_syntax: str = ""
    reasoning_start: str = ""
    reasoning_end: str = ""
