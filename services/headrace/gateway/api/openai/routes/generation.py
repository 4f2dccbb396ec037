"""The routes /v1/completions and /v1/chat/completions."""

from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager, nullcontext
from dataclasses import replace
from functools import partial
from typing import Any

from headrace.domain.deadline import Deadline
from headrace.errors import Forbidden, InvalidRequest
from headrace.gateway.api.entry.api_call import AnswerWhole, ApiCall
from headrace.gateway.api.entry.http_admission import HttpAdmission
from headrace.gateway.api.entry.numbered_events import NumberedEvents
from headrace.gateway.api.entry.stream_start import StreamStart
from headrace.gateway.api.openai.chat_request import conversation_of
from headrace.gateway.api.openai.chat_response import ChatFormat
from headrace.gateway.api.openai.completion_response import CompletionFormat
from headrace.gateway.api.openai.options import chat_options, completion_options, prompts_of
from headrace.gateway.api.openai.response import ResponseFormat
from headrace.gateway.api.openai.routes.streams import Resume
from headrace.gateway.api.openai.schema import Body, ChatBody, CompletionBody
from headrace.gateway.config import GatewaySettings
from headrace.gateway.delivery.pipeline import Pipeline
from headrace.gateway.delivery.preparation import Prompt
from headrace.gateway.delivery.text_stream import Piece
from headrace.gateway.http.error_body import error_body
from headrace.gateway.http.event_stream import event_stream
from headrace.gateway.http.exchange import DONE, Handler, HttpExchange
from headrace.gateway.job.job import Job, Options
from headrace.gateway.request.envelope import Envelope
from headrace.gateway.request.ledger import Ledger
from headrace.gateway.resumption.journals import Journals
from headrace.gateway.resumption.resumption import Resumption
from headrace.gateway.timing.timings_format import timings_of
from headrace.settings.web.web_names import host_name, is_loopback

CHAT, COMPLETIONS = "/v1/chat/completions", "/v1/completions"


class GenerationRoutes:
    """Turns an exchange into a job, runs it, and writes the result."""

    describe_error = staticmethod(error_body)
    scopes = frozenset({"generate"})

    def __init__(
        self, settings: GatewaySettings, pipeline: Pipeline, ledger: Ledger, journals: Journals | None = None
    ) -> None:
        """`journals`: those of streams. None: streams cannot be resumed."""
        self._settings = settings
        self._is_private = is_loopback(host_name(settings.http_address))
        self._pipeline = pipeline
        self._journals = journals
        self._admission = HttpAdmission(settings, pipeline, ledger)

    def handlers(self) -> Mapping[str, Mapping[str, Handler]]:
        return {
            CHAT: {"POST": self.chat_completions},
            COMPLETIONS: {"POST": self.completions},
        }

    def whole_answers(self) -> Mapping[str, AnswerWhole]:
        return {CHAT: self.chat, COMPLETIONS: self.complete}

    def resuming(self) -> Mapping[str, Resume]:
        """Returns the handlers that continue streams, by the paths that began them."""
        return {CHAT: self._resume_chat, COMPLETIONS: self._resume_completion}

    async def completions(self, exchange: HttpExchange) -> None:
        content = await exchange.read_body()
        await self.complete(exchange, content, StreamStart(exchange, COMPLETIONS, content))

    async def chat_completions(self, exchange: HttpExchange) -> None:
        content = await exchange.read_body()
        await self.chat(exchange, content, StreamStart(exchange, CHAT, content))

    async def _resume_completion(self, exchange: HttpExchange, resumption: Resumption) -> None:
        content = resumption.request.body
        await self.complete(exchange, content, StreamStart(exchange, COMPLETIONS, content, resumption))

    async def _resume_chat(self, exchange: HttpExchange, resumption: Resumption) -> None:
        content = resumption.request.body
        await self.chat(exchange, content, StreamStart(exchange, CHAT, content, resumption))

    async def complete(self, call: ApiCall, content: bytes, start: StreamStart | None = None) -> None:
        """Answers a completion. `start`: takes the events of a stream; None answers whole. Raises HeadraceError."""
        resumption = None if start is None else start.resumption
        body = self._admission.read(call, CompletionBody, content, resumption=resumption)
        options, prompts = self._bounded(completion_options(body), start), prompts_of(body)
        self._check_choice_count(len(prompts) * options.choice_count)
        stream = start if body.stream else None
        answer = partial(self._complete, call, prompts=prompts, options=options, stream=stream)
        await self._admission.answer(call, body, answer, may_overflow=resumption is None)

    async def chat(self, call: ApiCall, content: bytes, start: StreamStart | None = None) -> None:
        """Answers a conversation. `start`: takes the events of a stream; None answers whole. Raises HeadraceError."""
        resumption = None if start is None else start.resumption
        body = self._admission.read(call, ChatBody, content, resumption=resumption)
        self._check_template(call, body)
        options = self._bounded(chat_options(body), start)
        self._check_choice_count(options.choice_count)
        stream = start if body.stream else None
        answer = partial(self._chat, call, options=options, stream=stream)
        await self._admission.answer(call, body, answer, may_overflow=resumption is None)

    def _check_template(self, call: ApiCall, body: ChatBody) -> None:
        """Raises Forbidden for a chat template from a caller who may not send one."""
        if body.chat_template is not None and not call.caller.may_choose_templates(is_private=self._is_private):
            raise Forbidden(
                "chat_template is code that the platform runs, so it is for API keys with the scope admin: leave it "
                "out, or have an operator set it with headrace up --chat-template",
                param="chat_template",
            )

    async def _complete(
        self, call: ApiCall, body: CompletionBody, prompts: list[Prompt], options: Options, stream: StreamStart | None
    ) -> None:
        async with self._opened(call, body, "text_completion", stream) as envelope:
            job = await self._pipeline.prepare.completion(
                body.model, prompts, body.add_special_tokens, options, envelope
            )
            echoed = await self._echoed(body, prompts, envelope.deadline)
            style = CompletionFormat(job, f"cmpl-{envelope.answer.id}", body, echoed)
            await self._answer(call, body, style, job, stream)

    async def _chat(self, call: ApiCall, body: ChatBody, options: Options, stream: StreamStart | None) -> None:
        async with self._opened(call, body, "chat", stream) as envelope:
            job = await self._pipeline.prepare.chat(body.model, conversation_of(body), options, envelope)
            style = ChatFormat(job, f"chatcmpl-{envelope.answer.id}", body)
            await self._answer(call, body, style, job, stream)

    async def _answer(
        self, call: ApiCall, body: Body, style: ResponseFormat, job: Job, stream: StreamStart | None
    ) -> None:
        """Runs a job and writes its result."""
        if stream is None:
            async with aclosing(self._pipeline.generate(job)) as pieces:
                await _write_whole(call, body, style, pieces)
            return
        with stream.journaled(self._journals, job, style.response_id) as journal:
            async with aclosing(self._pipeline.generate(job, journal)) as pieces:
                await _write_events(stream.exchange, body, style, pieces, NumberedEvents(stream.exchange, journal))

    @asynccontextmanager
    async def _opened(
        self, call: ApiCall, body: Body, operation: str, stream: StreamStart | None
    ) -> AsyncIterator[Envelope]:
        """Opens the block of a request, and that of its events."""
        answer = stream.answer if stream is not None else None
        async with self._admission.open(call, body, operation, answer=answer) as envelope, self._event_stream(stream):
            yield envelope

    def _bounded(self, options: Options, start: StreamStart | None) -> Options:
        """Returns options as this gateway bounds them, with the seed that a stream began with."""
        bounded = replace(options, ends_at_window=self._settings.ends_at_window)
        return bounded if start is None else start.seeded(bounded)

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

    def _event_stream(self, stream: StreamStart | None) -> AbstractAsyncContextManager[None]:
        return nullcontext() if stream is None else event_stream(stream.exchange, self._settings.heartbeat_seconds)


async def _write_whole(call: ApiCall, body: Body, style: ResponseFormat, pieces: AsyncIterator[Piece]) -> None:
    choices = style.choices()
    async for piece in pieces:
        choices[piece.choice_index].add(piece)
    await call.send_json(200, style.whole(choices) | _timings(call, body))


async def _write_events(
    exchange: HttpExchange, body: Body, style: ResponseFormat, pieces: AsyncIterator[Piece], events: NumberedEvents
) -> None:
    choices, streaming = style.choices(), body.streaming
    async for piece in pieces:
        choice = choices[piece.choice_index]
        events.begin(piece)
        if not choice.has_started and (opening := style.opening(choice)) is not None:
            await events.send(style.chunk(opening, choices, streaming))
        chunk = style.delta(choice, piece)
        choice.add(piece)
        if style.says_something(chunk, piece) or body.return_token_ids:
            await events.send(style.chunk(chunk, choices, streaming))
    if streaming.include_usage:
        await events.send(style.usage_chunk(choices) | _timings(exchange, body))
    elif body.timings:
        await events.send(style.closing_chunk() | _timings(exchange, body))
    events.pass_known()
    await exchange.end_events(DONE)


def _timings(call: ApiCall, body: Body) -> dict[str, Any]:
    return {"timings": timings_of(call.record)} if body.timings else {}
