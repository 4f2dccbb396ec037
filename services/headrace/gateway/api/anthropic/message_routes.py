"""The routes of /v1/messages, which Anthropic's clients call."""

from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import aclosing, asynccontextmanager
from functools import partial

from headrace.domain.conversation import Conversation
from headrace.domain.to_encode import ConversationToEncode
from headrace.gateway.api.anthropic.message_body import CountBody, MessageBody
from headrace.gateway.api.anthropic.message_error import message_error
from headrace.gateway.api.anthropic.message_events import MessageEvents
from headrace.gateway.api.anthropic.message_request import message_conversation, message_options
from headrace.gateway.api.entry.http_admission import HttpAdmission
from headrace.gateway.api.openai.response import Choice
from headrace.gateway.api.openai.token_logprobs import Json
from headrace.gateway.config import GatewaySettings
from headrace.gateway.delivery.pipeline import Pipeline
from headrace.gateway.http.event_stream import event_stream
from headrace.gateway.http.exchange import Event, Handler, HttpExchange, typed_event
from headrace.gateway.job.job import Job, Options
from headrace.gateway.request.envelope import Envelope
from headrace.gateway.request.ledger import Ledger


class MessageRoutes:
    """Turns an exchange into a job, runs it, and writes the result."""

    describe_error = staticmethod(message_error)
    scopes = frozenset({"generate"})

    def __init__(self, settings: GatewaySettings, pipeline: Pipeline, ledger: Ledger) -> None:
        self._settings = settings
        self._pipeline = pipeline
        self._admission = HttpAdmission(settings, pipeline, ledger)

    def handlers(self) -> Mapping[str, Mapping[str, Handler]]:
        return {"/v1/messages": {"POST": self.create}, "/v1/messages/count_tokens": {"POST": self.count_tokens}}

    async def create(self, exchange: HttpExchange) -> None:
        exchange.headers["request-id"] = exchange.headers["x-request-id"]
        body = self._admission.read(exchange, MessageBody, await exchange.read_body())
        conversation, options = message_conversation(body), message_options(body)
        answer = partial(self._answer, exchange, conversation=conversation, options=options)
        await self._admission.answer(exchange, body, answer)

    async def _answer(
        self, exchange: HttpExchange, body: MessageBody, conversation: Conversation, options: Options
    ) -> None:
        async with self._running(exchange, body) as envelope:
            job = await self._pipeline.prepare.chat(body.model, conversation, options, envelope)
            prompt = job.prompts[0]
            fills_window = job.exceeds_window(prompt)
            choice = Choice(0, prompt, is_first_of_prompt=True)
            message = MessageEvents(f"msg_{envelope.request_id}", body.model, choice, fills_window=fills_window)
            async with aclosing(self._events(job, message)) as events:
                async for event in events:
                    if body.stream:
                        await exchange.send_event(typed_event(event))
            if body.stream:
                await exchange.end_events(b"")
            else:
                await exchange.send_json(200, message.whole())

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
    async def _running(self, exchange: HttpExchange, body: MessageBody) -> AsyncIterator[Envelope]:
        async with self._admission.open(exchange, body, "chat") as envelope:
            if not body.stream:
                yield envelope
                return
            async with event_stream(exchange, self._settings.heartbeat_seconds, _failure):
                yield envelope

    async def _events(self, job: Job, message: MessageEvents) -> AsyncGenerator[Json, None]:
        async with aclosing(self._pipeline.generate(job)) as pieces:
            async for piece in pieces:
                for event in message.push(piece):
                    yield event
        for event in message.end():
            yield event


def _failure(error: BaseException) -> Event:
    return typed_event(message_error(error))
