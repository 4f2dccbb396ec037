"""The routes of /v1/messages, which Anthropic's clients call."""

from collections.abc import AsyncIterator, Mapping
from contextlib import aclosing, asynccontextmanager
from functools import partial

from headrace.domain.conversation import Conversation
from headrace.domain.to_encode import ConversationToEncode
from headrace.gateway.api.anthropic.message_body import CountBody, MessageBody
from headrace.gateway.api.anthropic.message_error import message_error
from headrace.gateway.api.anthropic.message_events import MessageEvents
from headrace.gateway.api.anthropic.message_request import message_conversation, message_options
from headrace.gateway.api.entry.http_admission import HttpAdmission
from headrace.gateway.api.entry.numbered_events import NumberedEvents
from headrace.gateway.api.entry.stream_start import StreamStart
from headrace.gateway.api.openai.response import Choice
from headrace.gateway.api.openai.routes.streams import Resume
from headrace.gateway.config import GatewaySettings
from headrace.gateway.delivery.pipeline import Pipeline
from headrace.gateway.http.event_stream import event_stream
from headrace.gateway.http.exchange import Event, Handler, HttpExchange, typed_event
from headrace.gateway.job.job import Job, Options
from headrace.gateway.request.envelope import Envelope
from headrace.gateway.request.ledger import Ledger
from headrace.gateway.resumption.journals import Journals
from headrace.gateway.resumption.resumption import Resumption

MESSAGES = "/v1/messages"


class MessageRoutes:
    """Turns an exchange into a job, runs it, and writes the result."""

    describe_error = staticmethod(message_error)
    scopes = frozenset({"generate"})

    def __init__(
        self, settings: GatewaySettings, pipeline: Pipeline, ledger: Ledger, journals: Journals | None = None
    ) -> None:
        """`journals`: those of streams. None: streams cannot be resumed."""
        self._settings = settings
        self._journals = journals
        self._pipeline = pipeline
        self._admission = HttpAdmission(settings, pipeline, ledger)

    def handlers(self) -> Mapping[str, Mapping[str, Handler]]:
        return {MESSAGES: {"POST": self.create}, f"{MESSAGES}/count_tokens": {"POST": self.count_tokens}}

    def resuming(self) -> Mapping[str, Resume]:
        """Returns the handler that continues streams, by the path that began them."""
        return {MESSAGES: self._resume}

    async def create(self, exchange: HttpExchange) -> None:
        await self._respond(StreamStart(exchange, MESSAGES, await exchange.read_body()))

    async def _resume(self, exchange: HttpExchange, resumption: Resumption) -> None:
        await self._respond(StreamStart(exchange, MESSAGES, resumption.request.body, resumption))

    async def _respond(self, start: StreamStart) -> None:
        exchange = start.exchange
        exchange.headers["request-id"] = exchange.headers["x-request-id"]
        body = self._admission.read(exchange, MessageBody, start.body, resumption=start.resumption)
        conversation, options = message_conversation(body), start.seeded(message_options(body))
        answer = partial(self._answer, start, conversation=conversation, options=options)
        await self._admission.answer(exchange, body, answer, may_overflow=start.resumption is None)

    async def _answer(
        self, start: StreamStart, body: MessageBody, conversation: Conversation, options: Options
    ) -> None:
        async with self._running(start, body) as envelope:
            job = await self._pipeline.prepare.chat(body.model, conversation, options, envelope)
            prompt = job.prompts[0]
            fills_window = job.exceeds_window(prompt)
            choice = Choice(0, prompt, is_first_of_prompt=True)
            message = MessageEvents(f"msg_{envelope.answer.id}", body.model, choice, fills_window=fills_window)
            if body.stream:
                await self._stream(start, job, message)
                return
            async with aclosing(self._pipeline.generate(job)) as pieces:
                await start.exchange.send_json(200, await message.whole(pieces))

    async def _stream(self, start: StreamStart, job: Job, message: MessageEvents) -> None:
        """Writes the events of a message."""
        with start.journaled(self._journals, job, message.id) as journal:
            events = NumberedEvents(start.exchange, journal, typed_event)
            async with aclosing(self._pipeline.generate(job, journal)) as pieces:
                async for piece in pieces:
                    events.begin(piece)
                    for event in message.push(piece):
                        await events.send(event)
            for event in message.end():
                await events.send(event)
            events.pass_known()
            await start.exchange.end_events(b"")

    async def count_tokens(self, exchange: HttpExchange) -> None:
        exchange.headers["request-id"] = exchange.headers["x-request-id"]
        body = self._admission.read(exchange, CountBody, await exchange.read_body())
        async with self._admission.open(exchange, body, "tokenize") as envelope:
            limit = self._pipeline.fleet.text_model(body.model).max_model_length
            conversation = message_conversation(body)
            wanted = ConversationToEncode(body.model, conversation, limit)
            encoded = await self._pipeline.encoder.encode(wanted, envelope.deadline)
            await exchange.send_json(200, {"input_tokens": len(encoded.token_ids)})

    @asynccontextmanager
    async def _running(self, start: StreamStart, body: MessageBody) -> AsyncIterator[Envelope]:
        async with self._admission.open(start.exchange, body, "chat", answer=start.answer) as envelope:
            if not body.stream:
                yield envelope
                return
            async with event_stream(start.exchange, self._settings.heartbeat_seconds, _failure):
                yield envelope


def _failure(error: BaseException) -> Event:
    return typed_event(message_error(error))
