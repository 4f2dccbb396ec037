"""Bodies of OpenAI's API: requests written, results read."""

from collections.abc import Mapping
from typing import Any

from headrace.client.answer import Answer, CallChunk, Chunk, TokenUsage
from headrace.client.findings import Model, RequestTrace
from headrace.client.options import FORMATS, Call, CallOptions, Question, Tool
from headrace.domain.message import Message
from headrace.domain.tool_call import ToolCall

Json = dict[str, Any]
_NAMES = {"max_reasoning_tokens": "thinking_token_budget", "template_arguments": "chat_template_kwargs"}
_FORMAT_NAMES = dict(zip(FORMATS, ("json", "regex", "choice"), strict=True))
_OWN = {*CallOptions.__annotations__, *FORMATS, "tools", "logprobs", "logit_bias"}


def question_body(call: Call, question: Question, *, is_stream: bool) -> Json:
    """Returns the body of a request for an answer."""
    options = question.options
    body: Json = {"model": call.model, "return_token_ids": True}
    body |= {_NAMES.get(name, name): value for name, value in options.items() if name not in _OWN}
    if question.messages is None:
        body |= {"prompt": question.prompt} | ({"logprobs": 0} if options.get("logprobs") else {})
    else:
        body["messages"] = [_message(message) for message in question.messages]
        body |= {"logprobs": True} if options.get("logprobs") else {}
    if "tools" in options:
        body["tools"] = [_tool(tool) for tool in options["tools"]]
    if "logit_bias" in options:
        body["logit_bias"] = {str(token_id): bias for token_id, bias in options["logit_bias"].items()}
    if question.format is not None:
        name, value = question.format
        body["structured_outputs"] = {_FORMAT_NAMES[name]: value}
    return body | ({"stream": True, "stream_options": {"include_usage": True}} if is_stream else {})


def whole_answer(call: Call, body: Json) -> Answer:
    """Reads the body of a whole response."""
    choice = body["choices"][0]
    message = choice.get("message") or {}
    return Answer(
        text=choice.get("text") or message.get("content") or "",
        model=call.model,
        request_id=call.request_id,
        finish_reason=choice["finish_reason"] or "",
        usage=usage_of(body["usage"]),
        reasoning=message.get("reasoning") or "",
        tool_calls=tuple(
            ToolCall(each["id"], each["function"]["name"], each["function"]["arguments"])
            for each in message.get("tool_calls") or ()
        ),
        token_ids=tuple(choice.get("token_ids") or ()),
        logprobs=_logprobs(choice),
    )


def chunk_of(event: Json) -> Chunk:
    """Reads an event of a stream. Its finish reason is distinguished from the usage, which comes in a separate
    event."""
    if not event.get("choices"):
        return Chunk(usage=usage_of(event["usage"]) if event.get("usage") else None)
    choice = event["choices"][0]
    delta = choice.get("delta") or {}
    return Chunk(
        text=choice.get("text") or delta.get("content") or "",
        reasoning=delta.get("reasoning") or "",
        tool_calls=tuple(_call_chunk(each) for each in delta.get("tool_calls") or ()),
        token_ids=tuple(choice.get("token_ids") or ()),
        logprobs=_logprobs(choice),
        finish_reason=choice.get("finish_reason") or "",
    )


def usage_of(given: Json) -> TokenUsage:
    """Reads the usage of a response."""
    return TokenUsage(
        given["prompt_tokens"],
        given.get("completion_tokens", 0),
        (given.get("prompt_tokens_details") or {}).get("cached_tokens", 0),
        (given.get("completion_tokens_details") or {}).get("reasoning_tokens", 0),
    )


def model_of(given: Json) -> Model:
    """Reads an entry of /v1/models."""
    known = {name: given[name] for name in Model.__slots__ if given.get(name) is not None}
    return Model(name=given["id"], **known)


def trace_of(given: Mapping[str, Any]) -> RequestTrace:
    """Reads a record of /headrace/requests."""
    known = {name: given.get(name) for name in RequestTrace.__slots__}
    return RequestTrace(**(known | {name: known[name] or "" for name in ("worker", "model", "operation", "outcome")}))


def _message(message: Message) -> Json:
    body: Json = {"role": message.role, "content": message.content}
    optional = {"name": message.name, "tool_call_id": message.tool_call_id, "reasoning": message.reasoning}
    body |= {name: value for name, value in optional.items() if value}
    calls = [
        {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
        for call in message.tool_calls
    ]
    return body | ({"tool_calls": calls} if calls else {})


def _tool(tool: Tool) -> Json:
    function: Json = {"name": tool.name, "description": tool.description, "strict": tool.strict}
    return {"type": "function", "function": function | ({"parameters": tool.parameters} if tool.parameters else {})}


def _call_chunk(given: Json) -> CallChunk:
    function = given.get("function") or {}
    name, arguments = function.get("name") or "", function.get("arguments") or ""
    return CallChunk(given["index"], given.get("id") or "", name, arguments)


def _logprobs(choice: Json) -> tuple[float, ...]:
    given = choice.get("logprobs") or {}
    if "content" in given:
        return tuple(entry["logprob"] for entry in given["content"])
    return tuple(logprob for logprob in given.get("token_logprobs") or () if logprob is not None)
