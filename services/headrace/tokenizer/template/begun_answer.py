"""Conversations whose last message is the beginning of what the model is to write."""

from collections.abc import Callable
from dataclasses import replace

from headrace.domain.conversation import Conversation
from headrace.errors import InvalidRequest

_MARK = "\u2063headrace:the answer goes on here\u2063"
"""Text that no conversation holds, put where the rendered text is to end."""


def begun_answer(render: Callable[[Conversation], str], conversation: Conversation) -> str:
    """Renders a conversation up to the end of its last message's content, so that nothing closes it. Raises
    InvalidRequest for a conversation that cannot continue there."""
    *earlier, last = conversation.messages
    if last.tool_calls:
        raise InvalidRequest(
            "the last message calls tools, so that its content cannot go on: send their results", param="messages"
        )
    marked = replace(last, content=last.content + _MARK)
    rendered = render(replace(conversation, messages=(*earlier, marked), add_generation_prompt=False))
    begun, found, _ = rendered.rpartition(_MARK)
    if not found:
        raise InvalidRequest(
            "the chat template of this model leaves out the last message, so that its content cannot go on",
            param="messages",
        )
    return begun
