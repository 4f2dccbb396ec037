"""The routes /v1/completions and /v1/chat/completions."""

from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager, aclosing, nullcontext
from dataclasses import replace
from functools import partial
from typing import Any

from headrace.domain.deadline import Deadline
from headrace.errors import InvalidRequest
from headrace.gateway.api.entry.api_call import AnswerWhole, ApiCall
from headrace.gateway.api.entry.http_admission import HttpAdmission
from headrace.gateway.api.openai.chat_request import conversation_of
from headrace.gateway.api.openai.chat_response import ChatFormat
from headrace.gateway.api.openai.completion_response import CompletionFormat
from headrace.gateway.api.openai.options import chat_options, completion_options, prompts_of
from headrace.gateway.api.openai.response import ResponseFormat
from headrace.gateway.api.openai.schema import Body, ChatBody, CompletionBody
from headrace.gateway.config import GatewaySettings
from headrace.gateway.delivery.pipeline import Pipeline
from headrace.gateway.delivery.preparation import Prompt
from headrace.gateway.delivery.text_stream import Piece
from headrace.gateway.http.error_body import error_body
from headrace.gateway.http.event_stream import event_stream
from headrace.gateway.http.exchange import DONE, Handler, HttpExchange, data_event
from headrace.gateway.job.job import Options
from headrace.gateway.request.ledger import Ledger
from headrace.gateway.timing.timings_format import timings_of


class GenerationRoutes:
    """Turns an exchange into a job, runs it, and writes the result."""

    describe_error = staticmethod(error_body)
    scopes = frozenset({"generate"})

    def __init__(self, settings: GatewaySettings, pipeline: Pipeline, ledger: Ledger) -> None:
        self._settings = settings
        self._pipeline = pipeline
        self._admission = HttpAdmission(settings, pipeline, ledger)

    def handlers(self) -> Mapping[str, Mapping[str, Handler]]:
        return {
            "/v1/chat/completions": {"POST": self.chat_completions},
            "/v1/completions": {"POST": self.completions},
        }

    def whole_answers(self) -> Mapping[str, AnswerWhole]:
        return {"/v1/chat/completions": self.chat, "/v1/completions": self.complete}

    async def completions(self, exchange: HttpExchange) -> None:
        await self.complete(exchange, await exchange.read_body(), exchange)

    async def chat_completions(self, exchange: HttpExchange) -> None:
        await self.chat(exchange, await exchange.read_body(), exchange)

    async def complete(self, call: ApiCall, content: bytes, events: HttpExchange | None = None) -> None:
        """Answers a completion. `events`: takes those of a stream; None answers whole. Raises HeadraceError."""
        body = self._admission.read(call, CompletionBody, content)
        options, prompts = self._bounded(completion_options(body)), prompts_of(body)
        self._check_choice_count(len(prompts) * options.choice_count)
        stream = events if body.stream else None
        answer = partial(self._complete, call, prompts=prompts, options=options, stream=stream)
        await self._admission.answer(call, body, answer)

    async def chat(self, call: ApiCall, content: bytes, events: HttpExchange | None = None) -> None:
        """Answers a conversation. `events`: takes those of a stream; None answers whole. Raises HeadraceError."""
        body = self._admission.read(call, ChatBody, content)
        options = self._bounded(chat_options(body))
        self._check_choice_count(options.choice_count)
        stream = events if body.stream else None
        await self._admission.answer(call, body, partial(self._chat, call, options=options, stream=stream))

    async def _complete(
        self, call: ApiCall, body: CompletionBody, prompts: list[Prompt], options: Options, stream: HttpExchange | None
    ) -> None:
        async with self._admission.open(call, body, "text_completion") as envelope, self._event_stream(stream):
            job = await self._pipeline.prepare.completion(
                body.model, prompts, body.add_special_tokens, options, envelope
            )
            echoed = await self._echoed(body, prompts, envelope.deadline)
            style = CompletionFormat(job, f"cmpl-{envelope.answer.id}", body, echoed)
            async with aclosing(self._pipeline.generate(job)) as pieces:
                await _write(call, stream, body, style, pieces)

    async def _chat(self, call: ApiCall, body: ChatBody, options: Options, stream: HttpExchange | None) -> None:
        async with self._admission.open(call, body, "chat") as envelope, self._event_stream(stream):
            job = await self._pipeline.prepare.chat(body.model, conversation_of(body), options, envelope)
            style = ChatFormat(job, f"chatcmpl-{envelope.answer.id}", body)
            async with aclosing(self._pipeline.generate(job)) as pieces:
                await _write(call, stream, body, style, pieces)

    def _bounded(self, options: Options) -> Options:
        return replace(options, ends_at_window=self._settings.ends_at_window)

    def _check_choice_count(self, count: int) -> None:
        if count > self._settings.max_choices:
            raise InvalidRequest(
                f"the request asks for {count} sequences; at most {self._settings.max_choices} are allowed", param="n"
            )

    async def _echoed(self, body: CompletionBody, prompts: list[Prompt], deadline: Deadline) -> list[str] | None:
        if not body.echo:
            return None
        return [
            prompt if isinstance(prompt, str) else await self._pipeline.encoder.decode(body.model, prompt, deadline)
            for prompt in prompts
        ]

    def _event_stream(self, stream: HttpExchange | None) -> AbstractAsyncContextManager[None]:
        return nullcontext() if stream is None else event_stream(stream, self._settings.heartbeat_seconds)


async def _write(
    call: ApiCall, stream: HttpExchange | None, body: Body, style: ResponseFormat, pieces: AsyncIterator[Piece]
) -> None:
    if stream is None:
        await _write_whole(call, body, style, pieces)
    else:
        await _write_events(stream, body, style, pieces)


async def _write_whole(call: ApiCall, body: Body, style: ResponseFormat, pieces: AsyncIterator[Piece]) -> None:
    choices = style.choices()
    async for piece in pieces:
        choices[piece.choice_index].add(piece)
    await call.send_json(200, style.whole(choices) | _timings(call, body))


async def _write_events(
    exchange: HttpExchange, body: Body, style: ResponseFormat, pieces: AsyncIterator[Piece]
) -> None:
    choices, streaming = style.choices(), body.streaming
    async for piece in pieces:
        choice = choices[piece.choice_index]
        if not choice.has_started and (opening := style.opening(choice)) is not None:
            await exchange.send_event(data_event(style.chunk(opening, choices, streaming)))
        chunk = style.delta(choice, piece)
        choice.add(piece)
        if style.says_something(chunk, piece) or body.return_token_ids:
            await exchange.send_event(data_event(style.chunk(chunk, choices, streaming)))
    if streaming.include_usage:
        await exchange.send_event(data_event(style.usage_chunk(choices) | _timings(exchange, body)))
    elif body.timings:
        await exchange.send_event(data_event(style.closing_chunk() | _timings(exchange, body)))
    await exchange.end_events(DONE)


def _timings(call: ApiCall, body: Body) -> dict[str, Any]:
    return {"timings": timings_of(call.record)} if body.timings else {}
