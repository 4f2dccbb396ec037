"""Requests of the gRPC API: their fields, checked, as the pipeline takes them."""

import secrets
from dataclasses import replace

from headrace.domain.conversation import Conversation
from headrace.errors import InvalidRequest
from headrace.gateway.api.openai.fields.message_fields import ROLES
from headrace.gateway.api.openai.options import check_stop_texts
from headrace.gateway.api.openai.requested_grammar import check_grammar
from headrace.gateway.api.openai.schema import MAX_INT32, MAX_STOP_TOKEN_IDS
from headrace.gateway.chat.translation import ChatRequest, to_conversation, to_tool_use
from headrace.gateway.delivery.preparation import Prompt
from headrace.gateway.job.compared_texts import ComparedTexts
from headrace.gateway.job.embedding_job import EmbeddingOptions
from headrace.gateway.job.job import Options
from headrace.gateway.job.sampling import Sampling
from headrace.gateway.job.translation import to_sampling
from headrace.v1 import inference_pb2 as pb

DEFAULT_TOKEN_COUNT = 16
"""Maximum number of output tokens of a completion that names none."""


def prompt_of(request: pb.GenerateRequest | pb.StreamGenerateRequest) -> Prompt:
    """Returns the prompt of a completion. Raises InvalidRequest."""
    kind = request.WhichOneof("prompt")
    if kind is None:
        raise InvalidRequest("the prompt is missing: set text or token_ids", param="prompt")
    return request.text if kind == "text" else list(request.token_ids.values)


def conversation_of(request: ChatRequest) -> Conversation:
    """Returns the conversation of a request. Raises InvalidRequest."""
    for index, message in enumerate(request.messages):
        if message.role not in ROLES:
            raise InvalidRequest(
                f"message {index} has the role {message.role!r}; it must be one of {', '.join(ROLES)}",
                param="messages",
            )
    return to_conversation(request)


def inputs_of(request: pb.EmbedRequest, limit: int) -> list[Prompt]:
    """Returns the inputs to embed. Raises InvalidRequest unless there are 1 to `limit`."""
    if not 1 <= len(request.inputs) <= limit:
        raise InvalidRequest(f"there are {len(request.inputs)} inputs; there must be 1 to {limit}", param="inputs")
    if any(given.WhichOneof("content") is None for given in request.inputs):
        raise InvalidRequest("an input is missing: set text or token_ids", param="inputs")
    return [
        given.text if given.WhichOneof("content") == "text" else list(given.token_ids.values)
        for given in request.inputs
    ]


def embedding_options_of(request: pb.EmbedRequest | pb.RerankRequest) -> EmbeddingOptions:
    """Returns the options of a request to embed, or to compare."""
    resized = request if isinstance(request, pb.EmbedRequest) and request.HasField("dimension_count") else None
    return EmbeddingOptions(
        dimension_count=None if resized is None else resized.dimension_count,
        max_token_count=request.max_token_count if request.HasField("max_token_count") else None,
        priority_class=request.priority_class,
    )


def compared_of(request: pb.RerankRequest, limit: int) -> ComparedTexts:
    """Returns the texts to compare. Raises InvalidRequest unless there are 1 to `limit` with the query, and `top_n` is
    positive."""
    if not 1 <= len(request.documents) < limit:
        raise InvalidRequest(
            f"there are {len(request.documents)} documents; there must be 1 to {limit - 1}", param="documents"
        )
    if request.HasField("top_n") and request.top_n < 1:
        raise InvalidRequest(f"top_n is {request.top_n}; it must be at least 1", param="top_n")
    return ComparedTexts([request.query], request.documents, "documents", request.instruct)


def chat_options_of(request: ChatRequest) -> Options:
    """Returns the options of a chat. Raises InvalidRequest."""
    return replace(options_of(request.options, None), tool_use=to_tool_use(request))


def options_of(given: pb.GenerationOptions, default_token_count: int | None) -> Options:
    """Returns the options of a request to generate. Raises InvalidRequest."""
    sampling = to_sampling(given.sampling_params)
    _check(sampling)
    check_stop_texts(tuple(given.stop_texts))
    return Options(
        sampling=sampling if sampling.seed is not None else replace(sampling, seed=secrets.randbits(62)),
        max_token_count=sampling.max_token_count or default_token_count,
        stop_texts=tuple(given.stop_texts),
        priority_class=given.priority_class,
        max_reasoning_token_count=(
            given.max_reasoning_token_count if given.HasField("max_reasoning_token_count") else None
        ),
    )


def _check(sampling: Sampling) -> None:
    """Checks the ranges that the REST bridge checks with its schema."""
    ranges: tuple[tuple[str, float | None, float, float], ...] = (
        ("max_token_count", sampling.max_token_count, 0, MAX_INT32),
        ("temperature", sampling.temperature, 0, 2),
        ("top_p", sampling.top_p, 1e-9, 1),
        ("top_k", sampling.top_k, 1, MAX_INT32),
        ("min_p", sampling.min_p, 0, 1),
        ("repetition_penalty", sampling.repetition_penalty, 1e-9, 10),
        ("presence_penalty", sampling.presence_penalty, -2, 2),
        ("frequency_penalty", sampling.frequency_penalty, -2, 2),
        ("logprob_count", sampling.logprob_count, 0, 20),
        ("prompt_logprob_count", sampling.prompt_logprob_count, 0, 20),
        ("min_token_count", sampling.min_token_count, 0, sampling.max_token_count or MAX_INT32),
        ("the number of stop_token_ids", len(sampling.stop_token_ids), 0, MAX_STOP_TOKEN_IDS),
        *(
            (f"the bias of token id {key} in logit_biases", value, -100, 100)
            for key, value in sampling.logit_biases.items()
        ),
    )
    for name, value, low, high in ranges:
        if value is not None and not low <= value <= high:
            raise InvalidRequest(f"{name} is {value}; it must be from {low} to {high}", param=name.split()[-1])
    if sampling.grammar is not None:
        check_grammar(sampling.grammar)
