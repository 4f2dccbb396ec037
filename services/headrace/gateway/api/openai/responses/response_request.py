"""Translates requests of the Responses API."""

from collections.abc import Sequence

import msgspec

from headrace.domain.conversation import Conversation
from headrace.domain.message import Message
from headrace.errors import InvalidRequest, Unsupported
from headrace.gateway.api.openai.options import seed_of
from headrace.gateway.api.openai.requested_grammar import check_grammar
from headrace.gateway.api.openai.responses.response_body import AllowedResponseTools, ChosenTool, ResponseBody
from headrace.gateway.api.openai.responses.response_items import item_messages
from headrace.gateway.api.openai.responses.response_tools import FunctionTools
from headrace.gateway.chat.output_grammar import OutputGrammar
from headrace.gateway.chat.tools.tool_choice import agreed_use
from headrace.gateway.chat.tools.tool_use import ToolUse
from headrace.gateway.chat.turns import in_turns
from headrace.gateway.job.job import Options
from headrace.gateway.job.sampling import Sampling
from headrace.gateway.request.request_class import SERVICE_TIERS
from headrace.v1.generation_pb2 import GRAMMAR_KIND_JSON_OBJECT, GRAMMAR_KIND_JSON_SCHEMA

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
            presence_penalty=body.presence_penalty or 0.0,
            frequency_penalty=body.frequency_penalty or 0.0,
            seed=seed_of(None, body.temperature),
            logprob_count=(body.top_logprobs or 0) if with_logprobs else None,
            grammar=_grammar(body),
        ),
        max_token_count=body.max_output_tokens,
        ends_at_window=True,
        prompt_field="input",
        limit_field="max_output_tokens",
        priority_class=SERVICE_TIERS[body.service_tier],
        cache_salt=body.cache_salt or "",
        tool_use=_tool_use(body),
    )


def response_conversation(body: ResponseBody, earlier: Sequence[Message]) -> Conversation:
    """Returns the conversation that the request continues. Raises InvalidRequest."""
    effort = body.reasoning.effort if body.reasoning is not None else None
    thinking = {} if effort is None else {"enable_thinking": effort != "none", "reasoning_effort": effort}
    instructions = (Message("system", body.instructions),) if body.instructions else ()
    tools = [] if body.tool_choice == "none" else body.functions.functions.values()
    return Conversation(
        messages=in_turns((*instructions, *earlier, *input_messages(body))),
        tools=tuple(tool.definition() for tool in tools),
        template_arguments=thinking,
    )


def input_messages(body: ResponseBody) -> tuple[Message, ...]:
    """Translates the input, which is a text or a list of items. Raises InvalidRequest."""
    if isinstance(body.input, str):
        return (Message("user", body.input),)
    if not body.input:
        raise InvalidRequest("the input is empty", param="input")
    return tuple(message for index, item in enumerate(body.input) for message in item_messages(item, index))


def _tool_use(body: ResponseBody) -> ToolUse | None:
    known, several = body.functions, body.parallel_tool_calls is not False
    tools = list(known.functions.values())
    match body.tool_choice:
        case ChosenTool() as chosen:
            return agreed_use(tools, "required", [_seen(known, chosen)], allows_several=False)
        case AllowedResponseTools(mode=mode, tools=allowed):
            return agreed_use(tools, mode, [_seen(known, tool) for tool in allowed], allows_several=several)
        case choice:
            return agreed_use(tools, choice or "auto", allows_several=several)


def _seen(known: FunctionTools, chosen: ChosenTool) -> str:
    return known.find(chosen.name, chosen.namespace or "")


def _grammar(body: ResponseBody) -> OutputGrammar | None:
    form = body.text.format if body.text is not None else None
    if form is None or form.type == "text":
        return None
    if form.type == "json_schema" and form.content is None:
        raise InvalidRequest("text.format must have a schema", param="text")
    is_schema = form.type == "json_schema"
    grammar = OutputGrammar(
        GRAMMAR_KIND_JSON_SCHEMA if is_schema else GRAMMAR_KIND_JSON_OBJECT,
        msgspec.json.encode(form.content).decode() if is_schema else "",
        "text",
    )
    check_grammar(grammar)
    return grammar
