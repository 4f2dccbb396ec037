"""Implements InferenceService, the public gRPC API: converts, calls, converts back."""

import asyncio
import contextlib
import re
import secrets
import uuid
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterator
from contextlib import aclosing
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeVar

import grpc

from headrace.domain.conversation import Conversation
from headrace.domain.deadline import Deadline
from headrace.domain.ids import new_request_id
from headrace.errors import DeadlineExceeded, HeadraceError, InvalidRequest
from headrace.errors.table import row_of
from headrace.gateway.access.caller import Caller
from headrace.gateway.access.gate import OPEN_GATE, Gate
from headrace.gateway.chat.translation import ChatRequest, to_call_delta, to_conversation, to_tool_use
from headrace.gateway.config import GatewaySettings
from headrace.gateway.delivery.pipeline import SEQUENCES_AT_ONCE, Pipeline, Prompt
from headrace.gateway.delivery.streams.joined import joined
from headrace.gateway.delivery.text_stream import Piece
from headrace.gateway.http.exchange import PARTING_SECONDS
from headrace.gateway.openai.embedding_format import kept
from headrace.gateway.openai.fields.message_fields import ROLES
from headrace.gateway.openai.options import check_stop_texts
from headrace.gateway.openai.requested_grammar import check_grammar
from headrace.gateway.openai.schema import MAX_INT32, MAX_STOP_TOKEN_IDS
from headrace.gateway.request.embedding_job import EmbeddingOptions
from headrace.gateway.request.envelope import Envelope
from headrace.gateway.request.job import Job, Options
from headrace.gateway.request.ledger import Ledger
from headrace.gateway.request.overflow import HEADER as OVERFLOW_KEY
from headrace.gateway.request.overflow import Overflow
from headrace.gateway.request.sampling import Sampling
from headrace.gateway.request.translation import to_model_info, to_sampling
from headrace.gateway.timing.request_metrics import REQUESTS
from headrace.gateway.timing.request_record import RequestRecord
from headrace.gateway.timing.request_span import request_span
from headrace.gateway.timing.stopwatch import ADMISSION, SERIALIZE
from headrace.telemetry.call_metadata import REQUEST_KEY
from headrace.telemetry.logs import bound_request_id
from headrace.telemetry.traces import current_traceparent
from headrace.v1 import inference_pb2 as pb
from headrace.v1 import inference_pb2_grpc
from headrace.v1.generation_pb2 import Embedding

Context = grpc.aio.ServicerContext[Any, Any]
Event = pb.GenerationChunk | pb.GenerationSummary
Response = type[pb.StreamGenerateResponse] | type[pb.StreamChatResponse]
DEFAULT_TOKEN_COUNT = 16
T = TypeVar("T")
Prepare = Callable[[str, Envelope], Awaitable[Job]]
"""Makes the job of a request, for a model."""
_REQUEST_ID = re.compile(r"[!-~]{1,128}")


@dataclass(slots=True)
class _Call:
    """A call of a client, from its first word to its last."""

    context: Context
    record: RequestRecord
    caller: Caller
    has_written: bool = False


class InferenceServicer(inference_pb2_grpc.InferenceServiceServicer):
    """Serves the pipeline over gRPC."""

    def __init__(self, settings: GatewaySettings, pipeline: Pipeline, ledger: Ledger, gate: Gate = OPEN_GATE) -> None:
        self._settings = settings
        self._gate = gate
        self._pipeline = pipeline
        self._ledger = ledger
        self._overflow = Overflow(self._predicted_wait, settings.overflow, settings.overflow_wait_seconds)

    async def Generate(self, request: pb.GenerateRequest, context: Context) -> pb.GenerateResponse:  # noqa: N802
        result = await self._answered(request.model, context, "text_completion", self._completion(request), self._whole)
        return pb.GenerateResponse(result=result)

    async def Chat(self, request: pb.ChatRequest, context: Context) -> pb.ChatResponse:  # noqa: N802
        result = await self._answered(request.model, context, "chat", self._chat(request), self._whole)
        return pb.ChatResponse(result=result)

    async def StreamGenerate(  # type: ignore[override]  # noqa: N802
        self, request: pb.StreamGenerateRequest, context: Context
    ) -> None:
        write = partial(self._write, response=pb.StreamGenerateResponse)
        await self._answered(request.model, context, "text_completion", self._completion(request), write)

    async def StreamChat(  # type: ignore[override]  # noqa: N802
        self, request: pb.StreamChatRequest, context: Context
    ) -> None:
        write = partial(self._write, response=pb.StreamChatResponse)
        await self._answered(request.model, context, "chat", self._chat(request), write)

    async def Embed(self, request: pb.EmbedRequest, context: Context) -> pb.EmbedResponse:  # noqa: N802
        inputs = _inputs(request, self._settings.max_inputs)
        options = EmbeddingOptions(
            dimension_count=request.dimension_count if request.HasField("dimension_count") else None,
            max_token_count=request.max_token_count if request.HasField("max_token_count") else None,
            priority_class=request.priority_class,
        )
        async with (
            self._called(request.model, context, "embeddings") as call,
            self._admitted(call, request.model, "embed", caches=True) as envelope,
        ):
            job = await self._pipeline.prepare_embeddings(request.model, inputs, options, envelope)
            calls = [partial(self._pipeline.embedding, sequence) for sequence in job.sequences()]
            found = await joined(calls, SEQUENCES_AT_ONCE)
            envelope.account.finish()
            return pb.EmbedResponse(
                embeddings=[
                    Embedding(values=kept(embedding.values, job.options.dimension_count)) for embedding in found
                ],
                usage=pb.TokenUsage(prompt_token_count=job.token_count),
            )

    async def ListModels(self, request: pb.ListModelsRequest, context: Context) -> pb.ListModelsResponse:  # noqa: N802
        caller = self._caller(context)
        seen = [to_model_info(model) for model in self._pipeline.fleet.listed() if caller.may_use(model.model)]
        return pb.ListModelsResponse(models=seen)

    def _completion(self, request: pb.GenerateRequest | pb.StreamGenerateRequest) -> Prepare:
        """Checks a request, and returns what makes its job. Raises InvalidRequest."""
        prompt, options = _prompt(request), _options(request.options, DEFAULT_TOKEN_COUNT)

        async def prepare(model: str, envelope: Envelope) -> Job:
            return await self._pipeline.prepare_completion(model, [prompt], None, options, envelope)

        return prepare

    def _chat(self, request: ChatRequest) -> Prepare:
        """Checks a request, and returns what makes its job. Raises InvalidRequest."""
        conversation, options = _conversation(request), _chat_options(request)

        async def prepare(model: str, envelope: Envelope) -> Job:
            return await self._pipeline.prepare_chat(model, conversation, options, envelope)

        return prepare

    async def _write(self, call: _Call, job: Job, response: Response) -> None:
        """Writes a stream. Raises DeadlineExceeded when the client does not read it."""
        end = Deadline.after(job.envelope.deadline.remaining + PARTING_SECONDS)
        record = job.envelope.record
        record.is_stream = True
        async with aclosing(self._events(job)) as events:
            async for event in events:
                message = response(chunk=event) if isinstance(event, pb.GenerationChunk) else response(summary=event)
                record.stopwatch.lap(SERIALIZE)
                try:
                    async with asyncio.timeout(end.remaining):
                        call.has_written = True
                        await call.context.write(message)
                    record.note_flush()
                except TimeoutError:
                    raise DeadlineExceeded(
                        "the deadline passed while the response was written", stage="deliver"
                    ) from None

    async def _whole(self, _call: _Call, job: Job) -> pb.GenerationResult:
        result = pb.GenerationResult()
        async with aclosing(self._events(job)) as events:
            async for event in events:
                if isinstance(event, pb.GenerationChunk):
                    _add_chunk(result, event)
                else:
                    result.finish_reason = event.finish_reason
                    result.usage.CopyFrom(event.usage)
        job.envelope.record.stopwatch.lap(SERIALIZE)
        return result

    async def _events(self, job: Job) -> AsyncGenerator[Event, None]:
        """Yields chunks, then one summary."""
        usage = pb.TokenUsage(prompt_token_count=len(job.prompts[0]))
        piece = Piece()
        async with aclosing(self._pipeline.generate(job)) as pieces:
            async for piece in pieces:
                usage.output_token_count += len(piece.token_ids)
                usage.reasoning_token_count += piece.reasoning_token_count
                usage.cached_token_count = max(usage.cached_token_count, piece.cached_token_count)
                yield pb.GenerationChunk(
                    text=piece.text,
                    token_ids=piece.token_ids,
                    reasoning=piece.reasoning,
                    tool_calls=map(to_call_delta, piece.calls),
                    logprobs=piece.logprobs,
                )
        yield pb.GenerationSummary(finish_reason=piece.finish_reason, usage=usage)

    async def _answered(
        self,
        model: str,
        context: Context,
        operation: str,
        prepare: Prepare,
        finish: Callable[[_Call, Job], Awaitable[T]],
    ) -> T:
        """Answers a call by its model, or by that model's overflow model, which the trailing metadata name."""
        async with self._called(model, context, operation) as call:

            async def attempt(chosen: str) -> T:
                if chosen != model:
                    context.set_trailing_metadata(((OVERFLOW_KEY, model),))
                async with self._admitted(call, chosen) as envelope:
                    return await finish(call, await prepare(chosen, envelope))

            return await self._overflow.run(model, call.caller, attempt, lambda: call.has_written)

    @contextlib.asynccontextmanager
    async def _called(self, model: str, context: Context, operation: str) -> AsyncIterator[_Call]:
        """Opens the block of a call, and sends the client its id. Raises Unauthenticated, which is counted."""
        given = str(dict(context.invocation_metadata() or ()).get(REQUEST_KEY, ""))
        client_id = given if _REQUEST_ID.fullmatch(given) else uuid.uuid4().hex
        record = RequestRecord(client_id=client_id, api="grpc", operation=operation, model=model)
        try:
            await context.send_initial_metadata(((REQUEST_KEY, client_id),))
            with _counted_refusal(record):
                caller = self._caller(context)
            record.tenant = caller.tenant.name
            yield _Call(context, record, caller)
        finally:
            self._ledger.recent.add(record)

    @contextlib.asynccontextmanager
    async def _admitted(
        self, call: _Call, model: str, scope: str = "generate", *, caches: bool = False
    ) -> AsyncIterator[Envelope]:
        """Opens the block of an attempt at a request. Raises HeadraceError; for a key or model that is not allowed or
        unknown, it is counted."""
        record = call.record
        record.model = model
        with _counted_refusal(record):
            call.caller.check_scope({scope})
            call.caller.check_model(model)
            await self._pipeline.fleet.find(model)
        with (
            bound_request_id(record.client_id),
            request_span(record),
            self._ledger.open_request(record.client_id, model, record),
        ):
            envelope = self._envelope(call, caches=caches)
            record.stopwatch.lap(ADMISSION)
            with envelope.account.settled():
                yield envelope

    def _predicted_wait(self, model: str) -> float:
        return self._pipeline.fleet.predicted_wait(model)

    def _envelope(self, call: _Call, *, caches: bool) -> Envelope:
        caller, record = call.caller, call.record
        request_id = new_request_id(record.client_id)
        record.request_id = request_id
        return Envelope(
            request_id=request_id,
            accepted=record.stopwatch.started,
            deadline=Deadline.after(caller.allowed_seconds(self._seconds(call.context))),
            tenant=caller.tenant,
            traceparent=current_traceparent(),
            use_cache=caches,
            account=caller.open_account(request_id, record.model, lambda _: None),
            record=record,
        )

    def _caller(self, context: Context) -> Caller:
        """Returns the caller. Raises Unauthenticated."""
        metadata = dict(context.invocation_metadata() or ())
        return self._gate.caller(*(str(metadata.get(name, "")) for name in ("authorization", "x-api-key")))

    def _seconds(self, context: Context) -> float:
        """Returns the seconds that the call has left: its own, but at most those of a request without a deadline."""
        remaining = context.time_remaining()
        limit = self._settings.default_timeout_seconds
        return limit if remaining is None else min(limit, remaining)


@contextlib.contextmanager
def _counted_refusal(record: RequestRecord) -> Iterator[None]:
    """Counts an error in the block as the end of a call that is of no model."""
    try:
        yield
    except HeadraceError as error:
        record.model, record.outcome = "", row_of(error).code
        REQUESTS.labels(model="", outcome=record.outcome).inc()
        raise


def _prompt(request: pb.GenerateRequest | pb.StreamGenerateRequest) -> Prompt:
    kind = request.WhichOneof("prompt")
    if kind is None:
        raise InvalidRequest("the prompt is missing: set text or token_ids", param="prompt")
    return request.text if kind == "text" else list(request.token_ids.values)


def _conversation(request: ChatRequest) -> Conversation:
    """Returns the conversation of a request. Raises InvalidRequest."""
    for index, message in enumerate(request.messages):
        if message.role not in ROLES:
            raise InvalidRequest(
                f"message {index} has the role {message.role!r}; it must be one of {', '.join(ROLES)}",
                param="messages",
            )
    return to_conversation(request)


def _add_chunk(result: pb.GenerationResult, chunk: pb.GenerationChunk) -> None:
    result.text += chunk.text
    result.token_ids.extend(chunk.token_ids)
    result.reasoning += chunk.reasoning
    result.logprobs.extend(chunk.logprobs)
    for delta in chunk.tool_calls:
        call = result.tool_calls.add(id=delta.id, name=delta.name) if delta.id else result.tool_calls[delta.index]
        call.arguments += delta.arguments


def _inputs(request: pb.EmbedRequest, limit: int) -> list[Prompt]:
    if not 1 <= len(request.inputs) <= limit:
        raise InvalidRequest(f"there are {len(request.inputs)} inputs; there must be 1 to {limit}", param="inputs")
    if any(given.WhichOneof("content") is None for given in request.inputs):
        raise InvalidRequest("an input is missing: set text or token_ids", param="inputs")
    return [
        given.text if given.WhichOneof("content") == "text" else list(given.token_ids.values)
        for given in request.inputs
    ]


def _chat_options(request: ChatRequest) -> Options:
    return replace(_options(request.options, None), tool_use=to_tool_use(request))


def _options(given: pb.GenerationOptions, default_token_count: int | None) -> Options:
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
