"""/v1/completions and /v1/chat/completions."""

import asyncio
import contextlib
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from functools import partial

from headrace.errors import HeadraceError, InvalidRequest, Overloaded, RequestCancelled
from headrace.gateway.config import GatewaySettings
from headrace.gateway.delivery.merged import merged
from headrace.gateway.delivery.pipeline import Pipeline
from headrace.gateway.delivery.text_stream import Piece
from headrace.gateway.endpoints.admission import Admission
from headrace.gateway.http.error_body import error_body
from headrace.gateway.http.exchange import DONE, HttpExchange, data_event
from headrace.gateway.openai.chat_response import ChatFormat
from headrace.gateway.openai.completion_response import CompletionFormat
from headrace.gateway.openai.options import chat_options, completion_options, messages_of, prompts_of
from headrace.gateway.openai.response import ResponseFormat, choices_of
from headrace.gateway.openai.schema import Body, ChatBody, CompletionBody, parse
from headrace.gateway.request.job import Envelope, Job
from headrace.gateway.request.ledger import Ledger
from headrace.rpc.deadline import Deadline

_log = logging.getLogger(__name__)
OVERFLOW_HEADER = "x-headrace-overflow"
Prepare = Callable[[str, Envelope], Awaitable[tuple[Job, ResponseFormat]]]
"""Makes the job of a request for a model."""
PrepareJob = Callable[[Envelope], Awaitable[tuple[Job, ResponseFormat]]]


class GenerationRoutes:
    """Turns an exchange into a job, runs it, and writes what comes of it."""

    def __init__(self, settings: GatewaySettings, pipeline: Pipeline, ledger: Ledger) -> None:
        self._settings = settings
        self._pipeline = pipeline
        self._admission = Admission(settings, pipeline, ledger)

    async def completions(self, exchange: HttpExchange) -> None:
        body = parse(CompletionBody, await exchange.read_body())
        options = completion_options(body)
        prompts = prompts_of(body)
        self._check_choice_count(len(prompts) * options.choice_count)

        async def prepare(model: str, envelope: Envelope) -> tuple[Job, ResponseFormat]:
            job = await self._pipeline.prepare_completion(model, prompts, body.add_special_tokens, options, envelope)
            echoed = await self._echoed(body, model, envelope.deadline)
            response_id = f"cmpl-{envelope.request_id}"
            return job, CompletionFormat(job, response_id, bool(body.return_token_ids), echoed)

        await self._run(exchange, body, prepare)

    async def chat_completions(self, exchange: HttpExchange) -> None:
        body = parse(ChatBody, await exchange.read_body())
        options = chat_options(body)
        self._check_choice_count(options.choice_count)

        async def prepare(model: str, envelope: Envelope) -> tuple[Job, ResponseFormat]:
            job = await self._pipeline.prepare_chat(model, messages_of(body), options, envelope)
            return job, ChatFormat(job, f"chatcmpl-{envelope.request_id}", bool(body.return_token_ids))

        await self._run(exchange, body, prepare)

    async def _run(self, exchange: HttpExchange, body: Body, prepare: Prepare) -> None:
        """Runs the request, and where the queue has no room for it, on the model that takes what overflows."""
        try:
            await self._run_on(body.model, exchange, body, prepare)
        except Overloaded:
            smaller = self._settings.overflow.get(body.model)
            if smaller is None or exchange.started:
                raise
            exchange.headers[OVERFLOW_HEADER] = body.model
            await self._run_on(smaller, exchange, body, prepare)

    async def _run_on(self, model: str, exchange: HttpExchange, body: Body, prepare: Prepare) -> None:
        write = self._stream if body.stream else self._respond
        work = partial(write, exchange, body, partial(prepare, model))
        await self._admission.run(exchange, body.model_copy(update={"model": model}), "generate", work)

    def _check_choice_count(self, count: int) -> None:
        if count > self._settings.max_choices:
            raise InvalidRequest(
                f"the request asks for {count} sequences; at most {self._settings.max_choices} are allowed", param="n"
            )

    async def _echoed(self, body: CompletionBody, model: str, deadline: Deadline) -> list[str] | None:
        if not body.echo:
            return None
        prompts = prompts_of(body)
        return [
            prompt if isinstance(prompt, str) else await self._pipeline.decode(model, prompt, deadline)
            for prompt in prompts
        ]

    def _pieces(self, job: Job) -> AsyncGenerator[tuple[int, Piece], None]:
        return merged([self._pipeline.pieces(job, sequence) for sequence in job.sequences()])

    async def _respond(self, exchange: HttpExchange, body: Body, prepare: PrepareJob, envelope: Envelope) -> None:
        job, style = await prepare(envelope)
        choices = choices_of(job)
        async with aclosing(self._pieces(job)) as pieces:
            async for index, piece in pieces:
                choices[index].add(piece)
        await exchange.send_json(200, style.whole(choices))

    async def _stream(self, exchange: HttpExchange, body: Body, prepare: PrepareJob, envelope: Envelope) -> None:
        """Streams events. A failure before the first one is an HTTP status; after it, an event."""
        beating = asyncio.create_task(exchange.keep_alive(self._settings.heartbeat_seconds))
        try:
            job, style = await prepare(envelope)
            await self._write_chunks(exchange, body, job, style)
        except RequestCancelled:
            raise
        except Exception as error:
            if not exchange.started:
                raise
            if not isinstance(error, HeadraceError):
                _log.exception("unexpected failure in a stream")
            await exchange.end_events(data_event(error_body(error)))
            raise
        finally:
            beating.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await beating

    async def _write_chunks(self, exchange: HttpExchange, body: Body, job: Job, style: ResponseFormat) -> None:
        choices = choices_of(job)
        with_usage = body.includes_usage
        async with aclosing(self._pieces(job)) as pieces:
            async for index, piece in pieces:
                choice = choices[index]
                if not choice.text and (opening := style.opening(choice)) is not None:
                    await exchange.send_event(data_event(style.chunk(opening, with_usage)))
                chunk = style.delta(choice, piece)
                choice.add(piece)
                if style.says_something(chunk, piece) or body.return_token_ids:
                    await exchange.send_event(data_event(style.chunk(chunk, with_usage)))
        if with_usage:
            await exchange.send_event(data_event(style.usage_chunk(choices)))
        await exchange.end_events(DONE)
