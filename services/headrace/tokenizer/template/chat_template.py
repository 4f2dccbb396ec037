"""Renders conversations with a model's own Jinja template, in a sandbox: templates come with checkpoints."""

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import cached_property
from typing import Any, Literal, NoReturn

import jinja2
from jinja2.exceptions import SecurityError
from jinja2.ext import loopcontrols
from jinja2.runtime import Context
from jinja2.sandbox import ImmutableSandboxedEnvironment

from headrace.domain.conversation import Conversation
from headrace.errors import InvalidCheckpoint, InvalidRequest
from headrace.tokenizer.template.begun_answer import begun_answer
from headrace.tokenizer.template.generation_tag import GenerationTag
from headrace.tokenizer.template.template_facts import template_facts
from headrace.tokenizer.template.template_messages import in_parts, template_messages

MAX_POWER_BITS = 4096
_MARK = "\u2063"
"""Character that conversations do not hold, around the number of a message."""


class _Environment(ImmutableSandboxedEnvironment):
    """Bounds powers of integers: a large one is a single operation, which only the end of the process interrupts."""

    intercepted_binops = frozenset({"**"})

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:
        if isinstance(left, int) and isinstance(right, int) and left.bit_length() * abs(right) > MAX_POWER_BITS:
            raise SecurityError(f"a power has more than {MAX_POWER_BITS} bits")
        return super().call_binop(context, operator, left, right)


class ChatTemplate:
    """Chat template, in the environment that transformers gives templates.

    It is compiled when it is first rendered, in a process that can be ended: compiling computes its constant parts."""

    def __init__(
        self, source: str, special_tokens: Mapping[str, str], *, owner: Literal["model", "request"] = "model"
    ) -> None:
        """`owner`: whose template it is, for errors. Raises InvalidCheckpoint."""
        self._owner = owner
        environment = _Environment(trim_blocks=True, lstrip_blocks=True, extensions=[GenerationTag, loopcontrols])
        environment.filters["tojson"] = _to_json
        environment.globals.update(raise_exception=_refuse, strftime_now=_now)
        self._special_tokens = dict(special_tokens)
        self._source = source
        self._environment = environment
        try:
            self.facts = template_facts(source, environment.parse(source))
        except jinja2.TemplateError as error:
            raise InvalidCheckpoint(f"the chat template does not compile: {error}") from None
        except RecursionError:
            raise InvalidCheckpoint("the chat template does not compile: it is nested too deep") from None

    def render(self, conversation: Conversation) -> str:
        """Renders a conversation as the text that the model was trained on. The answer of the assistant is opened
        unless the conversation says otherwise. Raises InvalidRequest."""
        if conversation.continue_final_message:
            return begun_answer(self._render, conversation)
        return self._render(conversation)

    def _render(self, conversation: Conversation) -> str:
        messages = template_messages(conversation, self.facts)
        if self.facts.reads_some_parts:
            messages = self._mixed(conversation, messages)
        return self._rendered(conversation, messages)

    def _mixed(self, conversation: Conversation, messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Returns the messages with parts for the content of those whose text the template would leave out."""
        marks = [f"{_MARK}{index}{_MARK}" for index in range(len(messages))]
        pairs = list(zip(messages, marks, strict=True))
        shown = self._rendered(conversation, [message | {"content": mark} for message, mark in pairs])
        return [
            message if mark in shown or message["content"] is None else in_parts(message) for message, mark in pairs
        ]

    def _rendered(self, conversation: Conversation, messages: Sequence[Mapping[str, Any]]) -> str:
        variables = {
            **conversation.template_arguments,
            **self._special_tokens,
            "messages": messages,
            "tools": list(conversation.tools) or None,
            "add_generation_prompt": conversation.add_generation_prompt is not False,
        }
        try:
            return self._template.render(variables)
        except jinja2.TemplateError as error:
            message = f"the chat template of this {self._owner} refuses the conversation: {error}"
            raise InvalidRequest(message, param="messages") from None
        except MemoryError:
            raise
        except Exception as error:  # noqa: BLE001 - a template can make any happen
            reason = error or type(error).__name__
            message = f"the chat template of this {self._owner} fails on the conversation: {reason}"
            raise InvalidRequest(message, param="messages") from None

    @cached_property
    def _template(self) -> jinja2.Template:
        return self._environment.from_string(self._source)


def _to_json(
    value: Any,
    ensure_ascii: bool = False,
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def _refuse(message: str) -> NoReturn:
    raise jinja2.TemplateError(message)


def _now(pattern: str) -> str:
    return datetime.now().astimezone().strftime(pattern)
