"""A conversation to encode."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from headrace.domain.message import Message


@dataclass(frozen=True, slots=True)
class Conversation:
    """See `Conversation` of the protocol."""

    messages: tuple[Message, ...]
    tools: tuple[Mapping[str, Any], ...] = ()
    """Definitions of the tools that the model may call, as in OpenAI's API."""
    template_arguments: Mapping[str, Any] = field(default_factory=dict)
    add_generation_prompt: bool | None = None
    continue_final_message: bool = False
    chat_template: str = ""
    """Jinja text that replaces the model's template for this conversation. Empty: the model's own."""

    @property
    def character_count(self) -> int:
        return len(self.chat_template) + sum(message.character_count for message in self.messages)
