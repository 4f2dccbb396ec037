"""InferenceService, the public gRPC API: converts, calls, converts."""

import asyncio
import secrets
import time
import uuid
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from functools import partial
from typing import Any

import grpc

from headrace.errors import DeadlineExceeded, InvalidRequest
from headrace.gateway.config import GatewaySettings
from headrace.gateway.delivery.joined import joined
from headrace.gateway.delivery.pipeline import SEQUENCES_AT_ONCE, Pipeline, Prompt
from headrace.gateway.delivery.text_stream import Piece
from headrace.gateway.http.exchange import PARTING_SECONDS
from headrace.gateway.openai.embedding_format import kept
from headrace.gateway.openai.options import check_stop_texts
from headrace.gateway.openai.requested_grammar import check_grammar
from headrace.gateway.openai.schema import MAX_INT32, MAX_STOP_TOKEN_IDS, ROLES
from headrace.gateway.request.embedding_job import EmbeddingOptions
from headrace.gateway.request.job import Envelope, Job, Options
from headrace.gateway.request.ledger import Ledger
from headrace.gateway.request.tenants import EVERYONE, Tenant, Tenants
from headrace.identity.ids import new_request_id
from headrace.rpc.deadline import Deadline
from headrace.telemetry.logs import bound_request_id
from headrace.telemetry.traces import current_traceparent
from headrace.v1 import inference_pb2 as pb
from headrace.v1 import inference_pb2_grpc
from headrace.v1.generation_pb2 import Embedding, SamplingParams

Context = grpc.aio.ServicerContext[Any, Any]
Event = pb.GenerationChunk | pb.GenerationSummary
Prepare = Callable[[Envelope], Awaitable[Job]]
DEFAULT_TOKEN_COUNT = 16


class InferenceServicer(inference_pb2_grpc.InferenceServiceServicer):
    """Serves what the pipeline can do."""

    def __init__(
        self, settings: GatewaySettings, pipeline: Pipeline, ledger: Ledger, tenants: Tenants = EVERYONE
    ) -> None:
        self._settings = settings
        self._tenants = tenants
        self._pipeline = pipeline
        self._ledger = ledger

    async def Generate(self, request: pb.GenerateRequest, context: Context) -> pb.GenerateResponse:  # noqa: N802
        result = await self._whole(request.model, self._prepare_prompt(request), context)
        return pb.GenerateResponse(result=result)

    async def Chat(self, request: pb.ChatRequest, context: Context) -> pb.ChatResponse:  # noqa: N802
        return pb.ChatResponse(result=await self._whole(request.model, self._prepare_chat(request), context))

    async def StreamGenerate(  # type: ignore[override]  # noqa: N802
        self, request: pb.StreamGenerateRequest, context: Context
    ) -> None:
        def response(event: Event) -> pb.StreamGenerateResponse:
            if isinstance(event, pb.GenerationChunk):
                return pb.StreamGenerateResponse(chunk=event)
            return pb.StreamGenerateResponse(summary=event)

        await self._write(self._events(request.model, self._prepare_prompt(request), context), response, context)

    async def StreamChat(  # type: ignore[override]  # noqa: N802
        self, request: pb.StreamChatRequest, context: Context
    ) -> None:
        def response(event: Event) -> pb.StreamChatResponse:
            if isinstance(event, pb.GenerationChunk):
                return pb.StreamChatResponse(chunk=event)
            return pb.StreamChatResponse(summary=event)

        await self._write(self._events(request.model, self._prepare_chat(request), context), response, context)

    async def Embed(self, request: pb.EmbedRequest, context: Context) -> pb.EmbedResponse:  # noqa: N802
        inputs = _inputs(request, self._settings.max_inputs)
        options = EmbeddingOptions(
            dimension_count=request.dimension_count if request.HasField("dimension_count") else None,
            max_token_count=request.max_token_count if request.HasField("max_token_count") else None,
            priority_class=request.priority_class,
        )
        await self._pipeline.fleet.find(request.model)
        request_id = uuid.uuid4().hex
        with bound_request_id(request_id), self._ledger.open_request(request_id, request.model):
            envelope = self._envelope(request_id, context, caches=True)
            job = await self._pipeline.prepare_embeddings(request.model, inputs, options, envelope)
            calls = [partial(self._pipeline.embedding, sequence) for sequence in job.sequences()]
            found = await joined(calls, SEQUENCES_AT_ONCE)
            return pb.EmbedResponse(
                embeddings=[
                    Embedding(values=kept(embedding.values, job.options.dimension_count)) for embedding in found
                ],
                usage=pb.TokenUsage(prompt_token_count=job.token_count),
            )

    async def ListModels(self, request: pb.ListModelsRequest, context: Context) -> pb.ListModelsResponse:  # noqa: N802
        self._tenant(context)
        models = self._pipeline.fleet.models()
        return pb.ListModelsResponse(models=[models[name] for name in sorted(models)])

    def _prepare_prompt(self, request: pb.GenerateRequest | pb.StreamGenerateRequest) -> Prepare:
        kind = request.WhichOneof("prompt")
        if kind is None:
            raise InvalidRequest("the prompt is missing: set text or token_ids", param="prompt")
        prompt: Prompt = request.text if kind == "text" else list(request.token_ids.values)
        options = _options(request.options, DEFAULT_TOKEN_COUNT)
        return lambda envelope: self._pipeline.prepare_completion(request.model, [prompt], None, options, envelope)

    def _prepare_chat(self, request: pb.ChatRequest | pb.StreamChatRequest) -> Prepare:
        if not request.messages:
            raise InvalidRequest("messages must not be empty", param="messages")
        for index, message in enumerate(request.messages):
            if message.role not in ROLES:
                raise InvalidRequest(
                    f"message {index} has the role {message.role!r}; it must be one of {', '.join(ROLES)}",
                    param="messages",
                )
        options = _options(request.options, None)
        return lambda envelope: self._pipeline.prepare_chat(request.model, request.messages, options, envelope)

    async def _write(
        self, events: AsyncGenerator[Event, None], response: Callable[[Event], Any], context: Context
    ) -> None:
        """Writes a stream. Raises DeadlineExceeded, in the request's own frame, when the client does not read it."""
        deadline = Deadline.after(self._seconds(context) + PARTING_SECONDS)
        async with aclosing(events):
            async for event in events:
                try:
                    async with asyncio.timeout(deadline.remaining):
                        await context.write(response(event))
                except TimeoutError:
                    await events.athrow(
                        DeadlineExceeded("the deadline passed while the response was written", stage="deliver")
                    )

    async def _whole(self, model: str, prepare: Prepare, context: Context) -> pb.GenerationResult:
        texts: list[str] = []
        token_ids: list[int] = []
        summary = pb.GenerationSummary()
        async with aclosing(self._events(model, prepare, context)) as events:
            async for event in events:
                if isinstance(event, pb.GenerationChunk):
                    texts.append(event.text)
                    token_ids += event.token_ids
                else:
                    summary = event
        return pb.GenerationResult(
            text="".join(texts), token_ids=token_ids, finish_reason=summary.finish_reason, usage=summary.usage
        )

    async def _events(self, model: str, prepare: Prepare, context: Context) -> AsyncGenerator[Event, None]:
        """Chunks, then one summary."""
        await self._pipeline.fleet.find(model)
        request_id = uuid.uuid4().hex
        with bound_request_id(request_id), self._ledger.open_request(request_id, model):
            job = await prepare(self._envelope(request_id, context))
            sequence = job.sequences()[0]
            output_count, cached_count = 0, 0
            piece = Piece()
            async with aclosing(self._pipeline.pieces(job, sequence)) as pieces:
                async for piece in pieces:
                    output_count += len(piece.token_ids)
                    cached_count = max(cached_count, piece.cached_token_count)
                    yield pb.GenerationChunk(text=piece.text, token_ids=piece.token_ids)
            usage = pb.TokenUsage(
                prompt_token_count=len(sequence.prompt_token_ids),
                output_token_count=output_count,
                cached_token_count=cached_count,
            )
            yield pb.GenerationSummary(finish_reason=piece.finish_reason, usage=usage)

    def _envelope(self, request_id: str, context: Context, *, caches: bool = False) -> Envelope:
        return Envelope(
            request_id=new_request_id(request_id),
            accepted=time.monotonic(),
            deadline=Deadline.after(self._seconds(context)),
            tenant=self._tenant(context),
            traceparent=current_traceparent(),
            use_cache=caches,
        )

    def _tenant(self, context: Context) -> Tenant:
        """Raises Unauthenticated."""
        metadata = dict(context.invocation_metadata() or ())
        return self._tenants.of(str(metadata.get("authorization", "")))

    def _seconds(self, context: Context) -> float:
        """Time that the call has left: its own, and no more than a request without a deadline gets."""
        remaining = context.time_remaining()
        limit = self._settings.default_timeout_seconds
        return limit if remaining is None else min(limit, remaining)


def _inputs(request: pb.EmbedRequest, limit: int) -> list[Prompt]:
    if not 1 <= len(request.inputs) <= limit:
        raise InvalidRequest(f"there are {len(request.inputs)} inputs; there must be 1 to {limit}", param="inputs")
    if any(given.WhichOneof("content") is None for given in request.inputs):
        raise InvalidRequest("an input is missing: set text or token_ids", param="inputs")
    return [
        given.text if given.WhichOneof("content") == "text" else list(given.token_ids.values)
        for given in request.inputs
    ]


def _options(given: pb.GenerationOptions, default_token_count: int | None) -> Options:
    params = SamplingParams()
    params.CopyFrom(given.sampling_params)
    if not params.HasField("seed"):
        params.seed = secrets.randbits(62)
    _check(params)
    check_stop_texts(tuple(given.stop_texts))
    return Options(
        sampling_params=params,
        max_token_count=params.max_token_count or default_token_count,
        stop_texts=tuple(given.stop_texts),
        priority_class=given.priority_class,
    )


def _check(params: SamplingParams) -> None:
    """The ranges that the REST bridge checks with its schema."""
    ranges = (
        ("max_token_count", params.max_token_count, 0, MAX_INT32),
        ("temperature", params.temperature, 0, 2),
        ("top_p", params.top_p if params.HasField("top_p") else 1, 1e-9, 1),
        ("top_k", params.top_k if params.HasField("top_k") else 1, 1, MAX_INT32),
        ("min_p", params.min_p, 0, 1),
        ("repetition_penalty", params.repetition_penalty if params.HasField("repetition_penalty") else 1, 1e-9, 10),
        ("presence_penalty", params.presence_penalty, -2, 2),
        ("frequency_penalty", params.frequency_penalty, -2, 2),
        ("logprob_count", params.logprob_count, 0, 20),
        ("prompt_logprob_count", params.prompt_logprob_count, 0, 20),
        ("min_token_count", params.min_token_count, 0, params.max_token_count or MAX_INT32),
        ("the number of stop_token_ids", len(params.stop_token_ids), 0, MAX_STOP_TOKEN_IDS),
        *(
            (f"the bias of token id {key} in logit_biases", value, -100, 100)
            for key, value in params.logit_biases.items()
        ),
    )
    for name, value, low, high in ranges:
        if not low <= value <= high:
            raise InvalidRequest(f"{name} is {value}; it must be from {low} to {high}", param=name.split()[-1])
    if params.HasField("grammar"):
        check_grammar(params.grammar)
