"""A call of a tool in a conversation."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ToolCall:
    """See `ToolCall` of the protocol."""

    id: str
    name: str
    arguments: str
    """JSON object, as text."""
