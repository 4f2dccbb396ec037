"""Translates requests of the Responses API."""

from collections.abc import Sequence
from typing import Any

import msgspec

from headrace.clients.conversation import Conversation
from headrace.clients.message import Message
from headrace.clients.tool_call import ToolCall
from headrace.errors import InvalidRequest, Unsupported
from headrace.gateway.chat.output_grammar import Grammar
from headrace.gateway.chat.tools.tool import Tool
from headrace.gateway.chat.tools.tool_choice import agreed_use
from headrace.gateway.chat.tools.tool_use import ToolUse
from headrace.gateway.openai.fields.message_fields import ROLES
from headrace.gateway.openai.options import seed_of
from headrace.gateway.openai.requested_grammar import check_grammar
from headrace.gateway.openai.responses.response_body import AllowedResponseTools, ChosenTool, ResponseBody
from headrace.gateway.request.job import Options
from headrace.gateway.request.request_class import SERVICE_TIERS
from headrace.gateway.request.sampling import Sampling
from headrace.v1.generation_pb2 import GRAMMAR_KIND_JSON_OBJECT, GRAMMAR_KIND_JSON_SCHEMA

_TEXT_PARTS = {"input_text": "text", "output_text": "text", "text": "text", "refusal": "refusal"}
_LOGPROBS = "message.output_text.logprobs"
INCLUDES = frozenset({_LOGPROBS, "reasoning.encrypted_content"})
"""Values of `include` that are known. Reasoning is never encrypted: it is returned as it is."""


def response_options(body: ResponseBody) -> Options:
    """Translates the options of a request. Raises InvalidRequest."""
    for name in body.include or ():
        if name not in INCLUDES:
            raise Unsupported(f"include has {name!r}, which is not supported", param="include")
    with_logprobs = _LOGPROBS in (body.include or ()) or body.top_logprobs is not None
    return Options(
        sampling=Sampling(
            temperature=body.temperature,
            top_p=body.top_p,
            seed=seed_of(None, body.temperature),
            logprob_count=(body.top_logprobs or 0) if with_logprobs else None,
            grammar=_grammar(body),
        ),
        max_token_count=body.max_output_tokens,
        priority_class=SERVICE_TIERS[body.service_tier],
        tool_use=_tool_use(body),
    )


def response_conversation(body: ResponseBody, earlier: Sequence[Message]) -> Conversation:
    """Returns the conversation that the request continues. Raises InvalidRequest."""
    effort = body.reasoning.effort if body.reasoning is not None else None
    thinking = {} if effort is None else {"enable_thinking": effort != "none", "reasoning_effort": effort}
    instructions = (Message("system", body.instructions),) if body.instructions else ()
    tools = [] if body.tool_choice == "none" else _tools(body)
    return Conversation(
        messages=(*instructions, *earlier, *input_messages(body)),
        tools=tuple(tool.definition() for tool in tools),
        template_arguments=thinking,
    )


def input_messages(body: ResponseBody) -> tuple[Message, ...]:
    """Translates the input, which is a text or a list of items. Raises InvalidRequest."""
    if isinstance(body.input, str):
        return (Message("user", body.input),)
    if not body.input:
        raise InvalidRequest("the input is empty", param="input")
    return tuple(_merged([_message(item, index) for index, item in enumerate(body.input)]))


def _message(item: dict[str, Any], index: int) -> Message:
    where = f"input.{index}"
    match item.get("type", "message"):
        case "message":
            role = _text(item, "role", where)
            if role not in ROLES:
                raise InvalidRequest(f"{where}.role must be one of {', '.join(ROLES)}", param="input")
            return Message(role, _content(item.get("content"), where))
        case "function_call":
            name, arguments = _text(item, "name", where), _text(item, "arguments", where)
            return Message("assistant", tool_calls=(ToolCall(_text(item, "call_id", where), name, arguments),))
        case "function_call_output":
            return Message("tool", _content(item.get("output"), where), tool_call_id=_text(item, "call_id", where))
        case "reasoning":
            parts = [*(item.get("content") or ()), *(item.get("summary") or ())]
            texts = [part["text"] for part in parts if isinstance(part, dict) and isinstance(part.get("text"), str)]
            return Message("assistant", reasoning="\n".join(texts))
        case other:
            raise Unsupported(f"{where} is of the type {other!r}, which is not supported", param="input")


def _text(item: dict[str, Any], name: str, where: str) -> str:
    value = item.get(name)
    if not isinstance(value, str):
        raise InvalidRequest(f"{where}.{name} must be a string", param="input")
    return value


def _content(content: Any, where: str) -> str:
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        raise InvalidRequest(f"{where} must have content: a string or a list of parts", param="input")
    texts = []
    for part in content:
        kind = part.get("type") if isinstance(part, dict) else None
        if kind not in _TEXT_PARTS:
            raise InvalidRequest(
                f"{where} has a part of the type {kind!r}; the models here read text only", param="input"
            )
        texts.append(_text(part, _TEXT_PARTS[kind], where))
    return "".join(texts)


def _merged(messages: Sequence[Message]) -> list[Message]:
    """Returns the messages with consecutive ones of the assistant in one: items split what was one answer."""
    merged: list[Message] = []
    for message in messages:
        if message.role == "assistant" and merged and merged[-1].role == "assistant":
            last = merged.pop()
            merged.append(
                Message(
                    "assistant",
                    last.content + message.content,
                    tool_calls=(*last.tool_calls, *message.tool_calls),
                    reasoning=last.reasoning + message.reasoning,
                )
            )
        else:
            merged.append(message)
    return merged


def _tools(body: ResponseBody) -> list[Tool]:
    for given in body.tools or ():
        if given.type != "function":
            message = f"a tool is of the type {given.type!r}: only tools of the type function are supported"
            raise Unsupported(message, param="tools")
        if given.name is None:
            raise InvalidRequest("a tool has no name", param="tools")
    return [
        Tool(given.name or "", given.description or "", given.parameters or {}, given.strict is True)
        for given in body.tools or ()
    ]


def _tool_use(body: ResponseBody) -> ToolUse | None:
    tools, several = _tools(body), body.parallel_tool_calls is not False
    match body.tool_choice:
        case ChosenTool(name=name):
            return agreed_use(tools, "required", [name], allows_several=several)
        case AllowedResponseTools(mode=mode, tools=allowed):
            return agreed_use(tools, mode, [tool.name for tool in allowed], allows_several=several)
        case choice:
            return agreed_use(tools, choice or "auto", allows_several=several)


def _grammar(body: ResponseBody) -> Grammar | None:
    form = body.text.format if body.text is not None else None
    if form is None or form.type == "text":
        return None
    if form.type == "json_schema" and form.content is None:
        raise InvalidRequest("text.format must have a schema", param="text")
    is_schema = form.type == "json_schema"
    grammar = Grammar(
        GRAMMAR_KIND_JSON_SCHEMA if is_schema else GRAMMAR_KIND_JSON_OBJECT,
        msgspec.json.encode(form.content).decode() if is_schema else "",
        "text",
    )
    check_grammar(grammar)
    return grammar
