"""Messages of the gRPC API: requests written, results read."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from headrace.client.answer import Answer, CallChunk, Chunk, TokenUsage
from headrace.client.findings import Model
from headrace.client.options import Call, ChatOptions, Question
from headrace.client.transport import Input
from headrace.domain.message import Message
from headrace.domain.tool_call import ToolCall
from headrace.v1 import inference_pb2 as pb
from headrace.v1 import tokenizer_pb2
from headrace.v1.generation_pb2 import (
    FINISH_REASON_CONTENT_FILTER,
    FINISH_REASON_LENGTH,
    GRAMMAR_KIND_CHOICE,
    GRAMMAR_KIND_JSON_SCHEMA,
    GRAMMAR_KIND_REGEX,
    PRIORITY_CLASS_BATCH,
    PRIORITY_CLASS_INTERACTIVE,
    PRIORITY_CLASS_REALTIME,
    PRIORITY_CLASS_UNSPECIFIED,
    Grammar,
    ModelInfo,
    SamplingParams,
)

_PRIORITIES = {
    "realtime": PRIORITY_CLASS_REALTIME,
    "interactive": PRIORITY_CLASS_INTERACTIVE,
    "default": PRIORITY_CLASS_UNSPECIFIED,
    "batch": PRIORITY_CLASS_BATCH,
}
_CHOICES = {
    "auto": pb.TOOL_CHOICE_UNSPECIFIED,
    "none": pb.TOOL_CHOICE_NONE,
    "required": pb.TOOL_CHOICE_REQUIRED,
}
_FINISH_NAMES: Mapping[int, str] = {
    FINISH_REASON_LENGTH: "length",
    FINISH_REASON_CONTENT_FILTER: "content_filter",
}
_FORMATS = {
    "json_schema": GRAMMAR_KIND_JSON_SCHEMA,
    "regex": GRAMMAR_KIND_REGEX,
    "choices": GRAMMAR_KIND_CHOICE,
}
_SAME = ("temperature", "top_p", "min_p", "repetition_penalty", "presence_penalty", "frequency_penalty", "seed")
"""Options that have the name that they have in the messages."""


def prompt_fields(call: Call, question: Question) -> dict[str, Any]:
    """Returns the fields of a request that continues a prompt."""
    prompt = _content(question.prompt)
    return {"model": call.model, **prompt, "options": _options(call, question)}


def chat_fields(call: Call, question: Question) -> dict[str, Any]:
    """Returns the fields of a request that answers a conversation."""
    options = question.options
    tools = [
        pb.Tool(
            name=tool.name,
            description=tool.description,
            parameters=json.dumps(tool.parameters) if tool.parameters else "",
            strict=tool.strict,
        )
        for tool in options.get("tools", ())
    ]
    return {
        "model": call.model,
        "messages": [_message(message) for message in question.messages or ()],
        "options": _options(call, question),
        "tools": tools,
        "tool_choice": _CHOICES[options.get("tool_choice", "auto")],
        "parallel_tool_calls": options.get("parallel_tool_calls"),
        "template_arguments": json.dumps(options["template_arguments"]) if "template_arguments" in options else "",
    }


def embed_request(call: Call, inputs: Sequence[Input], dimensions: int | None) -> pb.EmbedRequest:
    """Returns the request for embeddings."""
    return pb.EmbedRequest(
        model=call.model,
        inputs=[pb.EmbeddingInput(**_content(given)) for given in inputs],
        dimension_count=dimensions,
        priority_class=_PRIORITIES[call.priority],
    )


def rerank_request(
    call: Call, query: str, documents: Sequence[str], top_n: int | None, instruct: str
) -> pb.RerankRequest:
    """Returns the request for a ranking."""
    return pb.RerankRequest(
        model=call.model,
        query=query,
        documents=documents,
        top_n=top_n,
        instruct=instruct,
        priority_class=_PRIORITIES[call.priority],
    )


def whole_answer(call: Call, result: pb.GenerationResult) -> Answer:
    """Reads a whole result."""
    calls = tuple(ToolCall(each.id, each.name, each.arguments) for each in result.tool_calls)
    return Answer(
        text=result.text,
        model=call.model,
        request_id=call.request_id,
        finish_reason=_finish_name(result.finish_reason, bool(calls)),
        usage=_usage(result.usage),
        reasoning=result.reasoning,
        tool_calls=calls,
        token_ids=tuple(result.token_ids),
        logprobs=tuple(entry.chosen.logprob for entry in result.logprobs),
    )


def chunk_of(chunk: pb.GenerationChunk) -> Chunk:
    """Reads a chunk of a stream."""
    return Chunk(
        text=chunk.text,
        reasoning=chunk.reasoning,
        tool_calls=tuple(CallChunk(each.index, each.id, each.name, each.arguments) for each in chunk.tool_calls),
        token_ids=tuple(chunk.token_ids),
        logprobs=tuple(entry.chosen.logprob for entry in chunk.logprobs),
    )


def last_chunk(summary: pb.GenerationSummary, has_calls: bool) -> Chunk:
    """Reads the end of a stream."""
    return Chunk(finish_reason=_finish_name(summary.finish_reason, has_calls), usage=_usage(summary.usage))


def model_of(info: ModelInfo) -> Model:
    """Reads the facts about a model."""
    return Model(
        name=info.model,
        architecture=info.architecture,
        precision=info.precision,
        parameter_count=info.parameter_count,
        max_model_length=info.max_model_length,
        embedding_size=info.embedding_size,
        scores_pairs=info.scores_pairs,
        parent=info.parent,
    )


def _content(given: Input) -> dict[str, Any]:
    return {"text": given} if isinstance(given, str) else {"token_ids": pb.TokenIds(values=given)}


def _finish_name(reason: int, has_calls: bool) -> str:
    return _FINISH_NAMES.get(reason, "tool_calls" if has_calls else "stop")


def _usage(given: pb.TokenUsage) -> TokenUsage:
    return TokenUsage(
        given.prompt_token_count, given.output_token_count, given.cached_token_count, given.reasoning_token_count
    )


def _message(message: Message) -> tokenizer_pb2.ChatMessage:
    return tokenizer_pb2.ChatMessage(
        role=message.role,
        content=message.content,
        name=message.name,
        tool_calls=[
            tokenizer_pb2.ToolCall(id=call.id, name=call.name, arguments=call.arguments) for call in message.tool_calls
        ],
        tool_call_id=message.tool_call_id,
        reasoning=message.reasoning,
    )


def _options(call: Call, question: Question) -> pb.GenerationOptions:
    return pb.GenerationOptions(
        sampling_params=_sampling(question.options, question.format),
        stop_texts=question.options.get("stop", ()),
        priority_class=_PRIORITIES[call.priority],
        max_reasoning_token_count=question.options.get("max_reasoning_tokens"),
    )


def _sampling(options: ChatOptions, form: tuple[str, Any] | None) -> SamplingParams:
    same: dict[str, Any] = {name: value for name, value in options.items() if name in _SAME}
    if form is not None:
        name, value = form
        text = value if isinstance(value, str) else json.dumps(value)
        same["grammar"] = Grammar(kind=_FORMATS[name], text=text, parameter="structured_outputs")
    top_k = options.get("top_k", 0)
    return SamplingParams(
        max_token_count=options.get("max_tokens", 0),
        # The REST bridge takes 0 and -1 for all tokens, as other servers do.
        top_k=None if top_k in (0, -1) else top_k,
        logit_biases=options.get("logit_bias", {}),
        stop_token_ids=options.get("stop_token_ids", ()),
        ignore_eos=options.get("ignore_eos", False),
        min_token_count=options.get("min_tokens", 0),
        logprob_count=0 if options.get("logprobs") else None,
        **same,
    )
