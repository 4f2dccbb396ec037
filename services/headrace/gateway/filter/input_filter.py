"""Filtering of what clients send."""

from dataclasses import replace

from headrace.domain.conversation import Conversation
from headrace.domain.message import Message
from headrace.errors import ContentFiltered
from headrace.gateway.filter.filter_rules import FilterRules
from headrace.gateway.filter.text_filter import TextFilter


class InputFilter:
    """Masks findings in texts, or refuses them."""

    def __init__(self, rules: FilterRules) -> None:
        self._rules = rules

    def text(self, text: str, param: str) -> str:
        """Returns a text without findings. Raises ContentFiltered, naming the field `param`."""
        if not self._rules.on_input:
            return text
        whole = TextFilter(self._rules)
        clean = whole.push(text, is_last=True)
        if whole.blocked_by:
            found = whole.blocked_by
            raise ContentFiltered(f"the filter of this tenant does not let {found} in the {param} through", param=param)
        return clean

    def conversation(self, conversation: Conversation) -> Conversation:
        """Returns a conversation without findings. Raises ContentFiltered."""
        if not self._rules.on_input:
            return conversation
        messages = tuple(self._message(message) for message in conversation.messages)
        return replace(conversation, messages=messages)

    def prompt(self, prompt: str | list[int], param: str) -> str | list[int]:
        """Returns a prompt without findings. Raises ContentFiltered, also for token ids, which cannot be searched."""
        if isinstance(prompt, str):
            return self.text(prompt, param)
        if self._rules.on_input:
            raise ContentFiltered(f"the filter of this tenant reads text only: send the {param} as text", param=param)
        return prompt

    def _message(self, message: Message) -> Message:
        calls = tuple(replace(call, arguments=self.text(call.arguments, "messages")) for call in message.tool_calls)
        content, reasoning = self.text(message.content, "messages"), self.text(message.reasoning, "messages")
        return replace(message, content=content, reasoning=reasoning, tool_calls=calls)
