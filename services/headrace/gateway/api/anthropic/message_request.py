"""Translates requests of the Messages API."""

from typing import Any, Literal

import msgspec

from headrace.domain.conversation import Conversation
from headrace.domain.message import Message
from headrace.gateway.api.anthropic.message_blocks import BlockReader, blocks_text
from headrace.gateway.api.anthropic.message_body import CountBody, GivenMessage, MessageBody
from headrace.gateway.api.openai.options import check_stop_texts, seed_of
from headrace.gateway.api.openai.requested_grammar import check_grammar
from headrace.gateway.chat.output_grammar import OutputGrammar
from headrace.gateway.chat.tools.tool import Tool
from headrace.gateway.chat.tools.tool_choice import agreed_use
from headrace.gateway.chat.tools.tool_use import ToolUse
from headrace.gateway.chat.turns import in_turns
from headrace.gateway.job.job import Options
from headrace.gateway.job.sampling import Sampling
from headrace.v1.generation_pb2 import GRAMMAR_KIND_JSON_SCHEMA

_CHOICES: dict[str, Literal["none", "auto", "required"]] = {"none": "none", "auto": "auto", "any": "required"}


def message_options(body: MessageBody) -> Options:
    """Translates the options of a request. Raises InvalidRequest."""
    stop_texts = tuple(body.stop_sequences or ())
    check_stop_texts(stop_texts)
    return Options(
        sampling=Sampling(
            temperature=body.temperature,
            top_p=body.top_p,
            top_k=body.top_k or None,
            seed=seed_of(None, body.temperature),
            grammar=_grammar(body),
        ),
        max_token_count=body.max_tokens,
        ends_at_window=True,
        prompt_field="messages",
        stop_texts=stop_texts,
        tool_use=_tool_use(body),
        max_reasoning_token_count=None if body.thinking is None else body.thinking.budget_tokens,
    )


def message_conversation(body: CountBody) -> Conversation:
    """Translates the messages, and the tools that the model sees. A last message of the assistant is the
    beginning of the answer. Raises InvalidRequest."""
    system = (Message("system", blocks_text(body.system, "system")),) if body.system else ()
    messages = [message for index, given in enumerate(body.messages) for message in _messages(given, index)]
    is_told = body.tool_choice is None or body.tool_choice.type != "none"
    turns, is_begun = _with_beginning(in_turns((*system, *messages)), body.messages[-1].role)
    return Conversation(
        messages=turns,
        tools=tuple(tool.definition() for tool in _tools(body)) if is_told else (),
        template_arguments=_template_arguments(body),
        continue_final_message=is_begun,
    )


def _messages(given: GivenMessage, index: int) -> list[Message]:
    where = f"messages.{index}.content"
    if isinstance(given.content, str):
        return [Message(given.role, given.content)]
    if given.role == "system":
        return [Message("system", blocks_text(given.content, where))]
    return list(BlockReader(given.role, where).read(given.content))


def _with_beginning(turns: tuple[Message, ...], last_role: str) -> tuple[tuple[Message, ...], bool]:
    """Returns the turns, and whether the answer continues the last. One without text begins nothing."""
    if last_role != "assistant" or turns[-1].tool_calls:
        return turns, False
    is_begun = bool(turns[-1].content)
    return turns if is_begun or len(turns) == 1 else turns[:-1], is_begun


def _template_arguments(body: CountBody) -> dict[str, Any]:
    thinking = {} if body.thinking is None else {"enable_thinking": body.thinking.type != "disabled"}
    effort = None if body.output_config is None else body.output_config.effort
    return thinking | ({} if effort is None else {"reasoning_effort": effort})


def _tools(body: CountBody) -> list[Tool]:
    """Returns the tools of the client. Others are left out: only Anthropic's platform runs them."""
    return [
        Tool(given.name or "", given.description or "", given.input_schema or {}, bool(given.strict))
        for given in body.tools or ()
        if given.is_function
    ]


def _tool_use(body: MessageBody) -> ToolUse | None:
    tools, given = _tools(body), body.tool_choice
    if given is None:
        return agreed_use(tools, "auto", allows_several=True)
    if given.type == "tool":
        return agreed_use(tools, "required", [given.name or ""], allows_several=False)
    return agreed_use(tools, _CHOICES[given.type], allows_several=not given.disable_parallel_tool_use)


def _grammar(body: MessageBody) -> OutputGrammar | None:
    form = body.output_config.format if body.output_config is not None else None
    if form is None:
        return None
    grammar = OutputGrammar(GRAMMAR_KIND_JSON_SCHEMA, msgspec.json.encode(form.content).decode(), "output_config")
    check_grammar(grammar)
    return grammar
