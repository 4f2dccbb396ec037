"""Messages in the form that chat templates read: the one of OpenAI's API, as in transformers."""

import hashlib
import re
from collections.abc import Sequence
from typing import Any

from headrace.domain.conversation import Conversation
from headrace.domain.message import Message
from headrace.tokenizer.template.numbered_calls import KIMI, numbered
from headrace.tokenizer.template.template_facts import HARMONY, TemplateFacts
from headrace.tokenizer.template.tool_instructions import instructions, result_of_call
from headrace.tokenizer.template.written_calls import answer_with_calls, parsed

_SHORT_ID = re.compile("[A-Za-z0-9]{9}")


def template_messages(conversation: Conversation, facts: TemplateFacts) -> list[dict[str, Any]]:
    """Converts the messages, so that a template with these facts leaves nothing of them out."""
    given = numbered(conversation.messages) if facts.tool_call_syntax == KIMI else conversation.messages
    messages = [_converted(message, facts) for message in given]
    if conversation.tools and not facts.shows_tools:
        messages = _instructed(messages, instructions(conversation.tools), facts)
    return [in_parts(message) for message in messages] if facts.reads_parts else messages


def in_parts(message: dict[str, Any]) -> dict[str, Any]:
    """Returns a message, whose content is a text or none, with a list of one part or of none for it."""
    text = message["content"]
    return message | {"content": [] if text is None else [{"type": "text", "text": text}]}


def _converted(message: Message, facts: TemplateFacts) -> dict[str, Any]:
    role = "system" if message.role == "developer" and not facts.has_developer else message.role
    converted: dict[str, Any] = {"role": role, "content": message.content}
    if message.name:
        converted["name"] = message.name
    if message.reasoning and not _says_both(message, facts):
        # Both names are read: transformers fills them as well.
        converted |= {"reasoning_content": message.reasoning, "thinking": message.reasoning}
    if facts.shows_calls:
        if message.tool_calls and not message.content and facts.knows_no_content:
            converted["content"] = None
        return converted | _calls(message, facts)
    if message.tool_calls:
        converted["content"] = answer_with_calls(message, facts.tool_call_syntax)
    if message.role == "tool" and not facts.has_tool_role:
        converted |= {"role": "user", "content": result_of_call(message)}
    return converted


def _says_both(message: Message, facts: TemplateFacts) -> bool:
    """Whether a message has content beside its calls where harmony's templates refuse reasoning as well: they take
    either for it."""
    return facts.tool_call_syntax == HARMONY and bool(message.content and message.tool_calls)


def _calls(message: Message, facts: TemplateFacts) -> dict[str, Any]:
    calls = [
        {
            "id": _call_id(call.id, facts),
            "type": "function",
            "function": {"name": call.name, "arguments": _arguments(call.arguments, facts)},
        }
        for call in message.tool_calls
    ]
    found: dict[str, Any] = {"tool_calls": calls} if calls else {}
    return found | ({"tool_call_id": _call_id(message.tool_call_id, facts)} if message.tool_call_id else {})


def _arguments(text: str, facts: TemplateFacts) -> Any:
    """Returns the arguments of a call in the form that the template reads."""
    return text or "{}" if facts.joins_arguments else parsed(text)


def _call_id(given: str, facts: TemplateFacts) -> str:
    """Returns the id of a call as the template takes it: Mistral's refuse all but nine letters and digits."""
    if not facts.tool_call_syntax.startswith("mistral") or _SHORT_ID.fullmatch(given):
        return given
    return hashlib.sha256(given.encode()).hexdigest()[:9]


def _instructed(messages: Sequence[dict[str, Any]], text: str, facts: TemplateFacts) -> list[dict[str, Any]]:
    """Returns the messages with instructions in the first of them, or in one of their own before all others."""
    if facts.refuses_system and messages[0]["role"] == "user":
        return [messages[0] | {"content": f"{text}\n\n{messages[0]['content']}"}, *messages[1:]]
    if messages[0]["role"] in ("system", "developer"):
        first = messages[0] | {"content": f"{messages[0]['content']}\n\n{text}"}
        return [first, *messages[1:]]
    return [{"role": "system", "content": text}, *messages]
