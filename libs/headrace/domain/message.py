"""A message of a conversation."""

from dataclasses import dataclass

from headrace.domain.tool_call import ToolCall


@dataclass(frozen=True, slots=True)
class Message:
    """See `ChatMessage` of the protocol."""

    role: str
    content: str = ""
    name: str = ""
    tool_calls: tuple[ToolCall, ...] = ()
    tool_call_id: str = ""
    reasoning: str = ""

    @property
    def character_count(self) -> int:
        calls = sum(len(call.name) + len(call.arguments) for call in self.tool_calls)
        return len(self.content) + len(self.reasoning) + calls
