"""Translates requests of the Messages API."""

import json
from typing import Any, Literal

import msgspec

from headrace.clients.conversation import Conversation
from headrace.clients.message import Message
from headrace.clients.tool_call import ToolCall
from headrace.errors import InvalidRequest, Unsupported
from headrace.gateway.anthropic.message_body import Blocks, CountBody, GivenMessage, MessageBody
from headrace.gateway.chat.output_grammar import Grammar
from headrace.gateway.chat.tools.tool import Tool
from headrace.gateway.chat.tools.tool_choice import agreed_use
from headrace.gateway.chat.tools.tool_use import ToolUse
from headrace.gateway.openai.options import check_stop_texts, seed_of
from headrace.gateway.openai.requested_grammar import check_grammar
from headrace.gateway.request.job import Options
from headrace.gateway.request.sampling import Sampling
from headrace.v1.generation_pb2 import GRAMMAR_KIND_JSON_SCHEMA

_CHOICES: dict[str, Literal["none", "auto", "required"]] = {
    "none": "none",
    "auto": "auto",
    "any": "required",
    "tool": "required",
}


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
        stop_texts=stop_texts,
        tool_use=_tool_use(body),
        max_reasoning_token_count=None if body.thinking is None else body.thinking.budget_tokens,
    )


def message_conversation(body: CountBody) -> Conversation:
    """Translates the messages, and the tools that the model is told about. Raises InvalidRequest."""
    system = (Message("system", _text_of(body.system, "system")),) if body.system else ()
    messages = [message for index, given in enumerate(body.messages) for message in _messages(given, index)]
    is_told = body.tool_choice is None or body.tool_choice.type != "none"
    thinking = {} if body.thinking is None else {"enable_thinking": body.thinking.type != "disabled"}
    return Conversation(
        messages=(*system, *messages),
        tools=tuple(tool.definition() for tool in _tools(body)) if is_told else (),
        template_arguments=thinking,
    )


def _messages(given: GivenMessage, index: int) -> list[Message]:
    """Translates one message: results of tools stand in a user's message here, and by themselves in the platform."""
    where = f"messages.{index}.content"
    if isinstance(given.content, str):
        return [Message(given.role, given.content)]
    results: list[Message] = []
    texts: list[str] = []
    calls: list[ToolCall] = []
    reasoning: list[str] = []
    for block in given.content:
        match block.get("type"):
            case "text":
                texts.append(_field(block, "text", where))
            case "thinking":
                reasoning.append(_field(block, "thinking", where))
            case "redacted_thinking":
                pass
            case "tool_use":
                arguments = json.dumps(block.get("input") or {}, ensure_ascii=False)
                calls.append(ToolCall(_field(block, "id", where), _field(block, "name", where), arguments))
            case "tool_result":
                content = _text_of(block.get("content") or "", where)
                results.append(Message("tool", content, tool_call_id=_field(block, "tool_use_id", where)))
            case kind:
                raise _not_text(where, kind)
    rest = Message(given.role, "".join(texts), tool_calls=tuple(calls), reasoning="".join(reasoning))
    return [*results, rest] if texts or calls or reasoning or not results else results


def _text_of(content: Blocks | Any, where: str) -> str:
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        raise InvalidRequest(f"{where} must be a string or a list of blocks", param=where)
    for block in content:
        if not isinstance(block, dict) or block.get("type") != "text":
            raise _not_text(where, block.get("type") if isinstance(block, dict) else None)
    return "\n".join(_field(block, "text", where) for block in content)


def _not_text(where: str, kind: object) -> InvalidRequest:
    return InvalidRequest(f"{where} has a block of the type {kind!r}; the models here read text only", param=where)


def _field(block: dict[str, Any], name: str, where: str) -> str:
    value = block.get(name)
    if not isinstance(value, str):
        kind = block.get("type")
        raise InvalidRequest(f"{where}: a block of the type {kind} must have {name}, a string", param=where)
    return value


def _tools(body: CountBody) -> list[Tool]:
    for given in body.tools or ():
        if given.type not in (None, "custom"):
            kind = given.type
            raise Unsupported(f"the tool {given.name} is of the type {kind!r}, which is not supported", param="tools")
    return [
        Tool(given.name, given.description or "", given.input_schema or {}, bool(given.strict))
        for given in body.tools or ()
    ]


def _tool_use(body: MessageBody) -> ToolUse | None:
    tools, given = _tools(body), body.tool_choice
    if given is None:
        return agreed_use(tools, "auto", allows_several=True)
    names = [given.name or ""] if given.type == "tool" else None
    return agreed_use(tools, _CHOICES[given.type], names, allows_several=not given.disable_parallel_tool_use)


def _grammar(body: MessageBody) -> Grammar | None:
    form = body.output_config.format if body.output_config is not None else None
    if form is None:
        return None
    grammar = Grammar(GRAMMAR_KIND_JSON_SCHEMA, msgspec.json.encode(form.content).decode(), "output_config")
    check_grammar(grammar)
    return grammar
