"""Implements InferenceService, the public gRPC API: converts, calls, converts back."""

import contextlib
import re
import uuid
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import aclosing
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

import grpc

from headrace.errors import HeadraceError
from headrace.gateway.access.caller import Caller
from headrace.gateway.access.gate import OPEN_GATE, Gate
from headrace.gateway.api.grpc.generation_request import (
    DEFAULT_TOKEN_COUNT,
    chat_options_of,
    compared_of,
    conversation_of,
    embedding_options_of,
    inputs_of,
    options_of,
    prompt_of,
)
from headrace.gateway.api.openai.embedding_format import kept
from headrace.gateway.chat.translation import ChatRequest, to_call_delta
from headrace.gateway.config import GatewaySettings
from headrace.gateway.delivery.pipeline import Pipeline
from headrace.gateway.delivery.preparation import SEQUENCES_AT_ONCE
from headrace.gateway.delivery.streams.joined import joined
from headrace.gateway.delivery.text_comparison import compare
from headrace.gateway.delivery.text_stream import Piece
from headrace.gateway.fleet.translation import to_model_info
from headrace.gateway.job.compared_texts import highest
from headrace.gateway.job.job import Job
from headrace.gateway.request.admission import Admission
from headrace.gateway.request.ask import Ask
from headrace.gateway.request.envelope import Envelope
from headrace.gateway.request.ledger import Ledger, note_refusal
from headrace.gateway.request.overflow import HEADER as OVERFLOW_KEY
from headrace.gateway.request.time_limit import ending_at
from headrace.gateway.timing.request_record import RequestRecord
from headrace.gateway.timing.stopwatch import SERIALIZE
from headrace.telemetry.call_metadata import REQUEST_KEY
from headrace.v1 import inference_pb2 as pb
from headrace.v1 import inference_pb2_grpc
from headrace.v1.generation_pb2 import Embedding

Context = grpc.aio.ServicerContext[Any, Any]
Event = pb.GenerationChunk | pb.GenerationSummary
Response = type[pb.StreamGenerateResponse] | type[pb.StreamChatResponse]
T = TypeVar("T")
Prepare = Callable[[str, Envelope], Awaitable[Job]]
"""Makes the job of a request, for a model."""
_REQUEST_ID = re.compile(r"[!-~]{1,128}")


@dataclass(slots=True)
class GrpcCall:
    """Call of the public API, from its begin to its end."""

    context: Context
    record: RequestRecord
    caller: Caller
    has_written: bool = False
    """Whether a message of the answer was sent."""

    def seconds(self, limit: float) -> float:
        """Returns the seconds that the call has left, at most `limit`: those of a request without a deadline."""
        remaining = self.context.time_remaining()
        return limit if remaining is None else min(limit, remaining)


class InferenceServicer(inference_pb2_grpc.InferenceServiceServicer):
    """Serves the pipeline over gRPC."""

    def __init__(self, settings: GatewaySettings, pipeline: Pipeline, ledger: Ledger, gate: Gate = OPEN_GATE) -> None:
        self._settings = settings
        self._gate = gate
        self._pipeline = pipeline
        self._ledger = ledger
        self._admission = Admission(settings, pipeline.fleet, ledger)

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
        inputs, options = inputs_of(request, self._settings.max_inputs), embedding_options_of(request)
        model = self._pipeline.fleet.names.resolve(request.model)
        async with (
            self._called(model, context, "embeddings", "embed") as call,
            self._admission.open(self._ask(call, model, use_cache=True)) as envelope,
        ):
            job = await self._pipeline.prepare.embeddings(model, inputs, options, envelope)
            calls = [partial(self._pipeline.embedding, sequence) for sequence in job.sequences()]
            found = await joined(calls, SEQUENCES_AT_ONCE)
            envelope.account.finish()
            return pb.EmbedResponse(
                embeddings=[
                    Embedding(values=kept(embedding.values, job.options.dimension_count)) for embedding in found
                ],
                usage=pb.TokenUsage(prompt_token_count=job.token_count),
            )

    async def Rerank(self, request: pb.RerankRequest, context: Context) -> pb.RerankResponse:  # noqa: N802
        compared, options = compared_of(request, self._settings.max_inputs), embedding_options_of(request)
        model = self._pipeline.fleet.names.resolve(request.model)
        async with (
            self._called(model, context, "embeddings", "embed") as call,
            self._admission.open(self._ask(call, model, use_cache=True)) as envelope,
        ):
            job, scores = await compare(self._pipeline, model, compared, options, envelope, is_raw=request.raw_scores)
            order = highest(scores, request.top_n if request.HasField("top_n") else None)
            return pb.RerankResponse(
                documents=[pb.RankedDocument(index=index, score=scores[index]) for index in order],
                usage=pb.TokenUsage(prompt_token_count=job.token_count),
            )

    async def ListModels(self, request: pb.ListModelsRequest, context: Context) -> pb.ListModelsResponse:  # noqa: N802
        caller = self._caller(context)
        seen = [to_model_info(model) for model in self._pipeline.fleet.listed() if caller.may_use(model.model)]
        return pb.ListModelsResponse(models=seen)

    def _completion(self, request: pb.GenerateRequest | pb.StreamGenerateRequest) -> Prepare:
        """Checks a request, and returns what makes its job. Raises InvalidRequest."""
        prompt, options = prompt_of(request), options_of(request.options, DEFAULT_TOKEN_COUNT)

        async def prepare(model: str, envelope: Envelope) -> Job:
            return await self._pipeline.prepare.completion(model, [prompt], None, options, envelope)

        return prepare

    def _chat(self, request: ChatRequest) -> Prepare:
        """Checks a request, and returns what makes its job. Raises InvalidRequest."""
        conversation, options = conversation_of(request), chat_options_of(request)

        async def prepare(model: str, envelope: Envelope) -> Job:
            return await self._pipeline.prepare.chat(model, conversation, options, envelope)

        return prepare

    async def _write(self, call: GrpcCall, job: Job, response: Response) -> None:
        """Writes a stream. Raises DeadlineExceeded when the client does not read it."""
        deadline, record = job.envelope.deadline, job.envelope.record
        record.is_stream = True
        async with ending_at(deadline, "the response was written"), aclosing(self._events(job)) as events:
            async for event in events:
                message = response(chunk=event) if isinstance(event, pb.GenerationChunk) else response(summary=event)
                record.stopwatch.lap(SERIALIZE)
                call.has_written = True
                await call.context.write(message)
                record.note_flush()

    async def _whole(self, _call: GrpcCall, job: Job) -> pb.GenerationResult:
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
        finish: Callable[[GrpcCall, Job], Awaitable[T]],
    ) -> T:
        """Answers a call by its model, or by that model's overflow model, which the trailing metadata name."""
        model = self._pipeline.fleet.names.resolve(model)
        async with self._called(model, context, operation) as call:

            async def attempt(chosen: str) -> T:
                if chosen != model:
                    context.set_trailing_metadata(((OVERFLOW_KEY, model),))
                async with self._admission.open(self._ask(call, chosen)) as envelope:
                    return await finish(call, await prepare(chosen, envelope))

            return await self._admission.answer(model, call.caller, attempt, lambda: call.has_written)

    @contextlib.asynccontextmanager
    async def _called(
        self, model: str, context: Context, operation: str, scope: str = "generate"
    ) -> AsyncIterator[GrpcCall]:
        """Opens the block of a call, and sends the client its id. Raises Unauthenticated, and Forbidden for a key
        without the scope."""
        given = str(dict(context.invocation_metadata() or ()).get(REQUEST_KEY, ""))
        client_id = given if _REQUEST_ID.fullmatch(given) else uuid.uuid4().hex
        record = RequestRecord(client_id=client_id, api="grpc", operation=operation, model=model)
        try:
            await context.send_initial_metadata(((REQUEST_KEY, client_id),))
            caller = self._caller(context)
            record.tenant = caller.tenant.name
            caller.check_scope({scope})
            yield GrpcCall(context, record, caller)
        except HeadraceError as error:
            note_refusal(error, record)
            raise
        finally:
            self._ledger.recent.add(record)

    def _ask(self, call: GrpcCall, model: str, *, use_cache: bool = False) -> Ask:
        seconds = call.seconds(self._settings.default_timeout_seconds)
        return Ask(model, call.caller, call.record, seconds, use_cache=use_cache)

    def _caller(self, context: Context) -> Caller:
        """Returns the caller. Raises Unauthenticated."""
        metadata = dict(context.invocation_metadata() or ())
        return self._gate.caller(*(str(metadata.get(name, "")) for name in ("authorization", "x-api-key")))


def _add_chunk(result: pb.GenerationResult, chunk: pb.GenerationChunk) -> None:
    result.text += chunk.text
    result.token_ids.extend(chunk.token_ids)
    result.reasoning += chunk.reasoning
    result.logprobs.extend(chunk.logprobs)
    for delta in chunk.tool_calls:
        call = result.tool_calls.add(id=delta.id, name=delta.name) if delta.id else result.tool_calls[delta.index]
        call.arguments += delta.arguments
