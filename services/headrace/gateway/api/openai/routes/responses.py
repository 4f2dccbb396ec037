"""The routes of /v1/responses."""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager
from functools import partial

from headrace.domain.deadline import Deadline
from headrace.domain.message import Message
from headrace.domain.to_encode import ConversationToEncode
from headrace.errors import InvalidRequest, Unavailable
from headrace.gateway.api.entry.api_call import AnswerWhole, ApiCall
from headrace.gateway.api.entry.http_admission import HttpAdmission, name_ignored
from headrace.gateway.api.entry.stream_start import StreamStart
from headrace.gateway.api.openai.responses.background.background_responses import BackgroundResponses, continued
from headrace.gateway.api.openai.responses.background.event_log import EventLog
from headrace.gateway.api.openai.responses.created_response import CreatedResponse
from headrace.gateway.api.openai.responses.response_archive import ResponseArchive
from headrace.gateway.api.openai.responses.response_body import ResponseBody
from headrace.gateway.api.openai.responses.response_items import ITEM_REFERENCE, kind_of
from headrace.gateway.api.openai.responses.response_object import CANCELLED, IN_PROGRESS, QUEUED
from headrace.gateway.api.openai.responses.response_request import response_conversation
from headrace.gateway.api.openai.responses.response_writer import ResponseWriter
from headrace.gateway.api.openai.responses.stored_response import StoredResponse
from headrace.gateway.api.openai.responses.stream_query import read_stream_query
from headrace.gateway.api.openai.token_logprobs import Json
from headrace.gateway.config import GatewaySettings
from headrace.gateway.delivery.pipeline import Pipeline
from headrace.gateway.fleet.model_facts import ModelFacts
from headrace.gateway.http.error_body import error_body
from headrace.gateway.http.event_stream import event_stream
from headrace.gateway.http.exchange import Event, Handler, HttpExchange, typed_event
from headrace.gateway.request.envelope import Envelope
from headrace.gateway.request.ledger import Ledger
from headrace.gateway.resumption.journals import Journals
from headrace.gateway.resumption.resumption import Resumption
from headrace.lifecycle import Background

RESPONSES = "/v1/responses"


class ResponseRoutes:
    """Creates responses, in the foreground, as events or in the background, and shows stored ones."""

    describe_error = staticmethod(error_body)
    scopes = frozenset({"generate"})

    def __init__(
        self,
        settings: GatewaySettings,
        pipeline: Pipeline,
        ledger: Ledger,
        archive: ResponseArchive,
        background: Background,
        journals: Journals | None = None,
    ) -> None:
        """`journals`: those of streams. None: no other gateway continues a response."""
        self._settings = settings
        self._pipeline = pipeline
        self._archive = archive
        self._admission = HttpAdmission(settings, pipeline, ledger)
        self._writer = ResponseWriter(pipeline, archive, journals)
        self._background = BackgroundResponses(self._writer, archive, self._admission, background, journals)

    def handlers(self) -> Mapping[str, Mapping[str, Handler]]:
        return {
            RESPONSES: {"POST": self.create},
            f"{RESPONSES}/input_tokens": {"POST": self.count_input_tokens},
            f"{RESPONSES}/{{id}}": {"GET": self.show, "DELETE": self.delete},
            f"{RESPONSES}/{{id}}/cancel": {"POST": self.cancel},
            f"{RESPONSES}/{{id}}/input_items": {"GET": self.show_input},
        }

    def whole_answers(self) -> Mapping[str, AnswerWhole]:
        return {RESPONSES: self.respond}

    async def create(self, exchange: HttpExchange) -> None:
        await self.respond(exchange, await exchange.read_body(), exchange)

    async def respond(self, call: ApiCall, content: bytes, client: HttpExchange | None = None) -> None:
        """Answers with a response. `client`: takes the events of a stream, and may leave one in the background; None
        answers whole. Raises HeadraceError."""
        body = await self._read(call, content)
        earlier = await self._earlier(call, body)
        if body.background and client is not None:
            await self._pipeline.fleet.find(body.model)
            created = self._created(call, body, earlier)
            await self._create_in_background(created, StreamStart(client, RESPONSES, content))
            return
        stream = client if body.stream else None
        await self._admission.answer(call, body, partial(self._answer, call, earlier=earlier, stream=stream))

    async def _answer(
        self, call: ApiCall, body: ResponseBody, earlier: Sequence[Message], stream: HttpExchange | None
    ) -> None:
        created = self._created(call, body, earlier)
        async with (
            self._running(created, stream) as envelope,
            aclosing(self._writer.events(created, envelope)) as events,
        ):
            async for event in events:
                if stream is not None:
                    await stream.send_event(typed_event(event))
            if stream is not None:
                await stream.end_events(b"")
                return
            if body.store is not False and not created.events.response["store"]:
                name_ignored(call, ["store"])
            await call.send_json(200, created.events.response)

    def _created(
        self, call: ApiCall, body: ResponseBody, earlier: Sequence[Message], begun: StoredResponse | None = None
    ) -> CreatedResponse:
        facts = self._pipeline.fleet.models().get(body.model) or ModelFacts(body.model)
        return CreatedResponse(call, body, facts, earlier, begun)

    async def show(self, exchange: HttpExchange) -> None:
        query, response_id = read_stream_query(exchange.query), _id_in(exchange)
        stored = await self._archive.get(exchange.caller.tenant, response_id)
        is_wanted = query.is_stream or self._archive.is_abandoned(stored)
        log = await self._background.reopen(exchange, RESPONSES, stored, self._again) if is_wanted else None
        if not query.is_stream:
            await exchange.send_json(200, stored.response if log is None else continued(stored))
            return
        if log is None:
            raise InvalidRequest(
                "stream works for responses that were created with background and stream, as long as their events are "
                "kept: ask without stream",
                param="stream",
            )
        await self._follow(exchange, log, query.starting_after)

    async def show_input(self, exchange: HttpExchange) -> None:
        stored = await self._archive.get(exchange.caller.tenant, _id_in(exchange))
        ids = [item.get("id") for item in stored.input]
        first, last = (ids[0], ids[-1]) if ids else (None, None)
        listed: Json = {"object": "list", "data": stored.input, "has_more": False}
        await exchange.send_json(200, listed | {"first_id": first, "last_id": last})

    async def delete(self, exchange: HttpExchange) -> None:
        response_id = _id_in(exchange)
        await self._archive.delete(exchange.caller.tenant, response_id)
        self._background.forget(exchange.caller.tenant, response_id)
        await exchange.send_json(200, {"id": response_id, "object": "response", "deleted": True})

    async def cancel(self, exchange: HttpExchange) -> None:
        await exchange.read_body()
        stored = await self._archive.get(exchange.caller.tenant, _id_in(exchange))
        if not stored.response["background"]:
            raise InvalidRequest("only a response in the background can be cancelled: close the connection instead")
        if stored.response["status"] in (QUEUED, IN_PROGRESS):
            stored.response["status"] = CANCELLED
            if not await self._archive.put(exchange.caller.tenant, stored):
                raise Unavailable("the response could not be cancelled, because the cache does not take it: try again")
        await exchange.send_json(200, stored.response)

    async def count_input_tokens(self, exchange: HttpExchange) -> None:
        body = await self._read(exchange, await exchange.read_body())
        conversation = response_conversation(body, await self._earlier(exchange, body))
        async with self._admission.open(exchange, body, "tokenize") as envelope:
            limit = self._pipeline.fleet.text_model(body.model).max_model_length
            wanted = ConversationToEncode(body.model, conversation, limit)
            encoded = await self._pipeline.encoder.encode(wanted, envelope.deadline, "input")
            counted = {"object": "response.input_tokens", "input_tokens": len(encoded.token_ids)}
            await exchange.send_json(200, counted)

    async def _read(self, call: ApiCall, content: bytes, resumption: Resumption | None = None) -> ResponseBody:
        """Reads a body, with the items in the place of references to them, as far as they are kept here."""
        body = self._admission.read(call, ResponseBody, content, resumption=resumption)
        if isinstance(body.input, str) or all(kind_of(item) != ITEM_REFERENCE for item in body.input):
            return body
        items = [
            (await self._archive.find_item(call.caller.tenant, str(item.get("id"))) or item)
            if kind_of(item) == ITEM_REFERENCE
            else item
            for item in body.input
        ]
        return body.model_copy(update={"input": items})

    async def _earlier(self, call: ApiCall, body: ResponseBody) -> Sequence[Message]:
        """Returns the conversation that the response continues."""
        if body.previous_response_id is None:
            return []
        return (await self._archive.get(call.caller.tenant, body.previous_response_id, "previous_response_id")).messages

    async def _again(self, exchange: HttpExchange, stored: StoredResponse, resumption: Resumption) -> CreatedResponse:
        """Creates a response that another gateway has begun, as far as its journal knows it."""
        body = await self._read(exchange, resumption.request.body, resumption)
        return self._created(exchange, body, await self._earlier(exchange, body), stored)

    @asynccontextmanager
    async def _running(self, created: CreatedResponse, stream: HttpExchange | None) -> AsyncIterator[Envelope]:
        """Opens the block of a response in the foreground."""

        def failure(error: BaseException) -> Event:
            return b"".join(map(typed_event, created.events.fail(error_body(error))))

        async with self._admission.open(created.call, created.body, "chat") as envelope:
            if stream is None:
                yield envelope
                return
            async with event_stream(stream, self._settings.heartbeat_seconds, failure):
                yield envelope

    async def _create_in_background(self, created: CreatedResponse, start: StreamStart) -> None:
        log = await self._background.start(created, start)
        if created.body.stream:
            await self._follow(start.exchange, log, -1)
        else:
            await start.exchange.send_json(200, created.events.response)

    async def _follow(self, exchange: HttpExchange, log: EventLog, number: int) -> None:
        """Sends the events of a response in the background after the one of this number, until its end."""
        deadline = Deadline.after(self._settings.default_timeout_seconds)
        async with (
            exchange.limit(deadline),
            event_stream(exchange, self._settings.heartbeat_seconds),
            aclosing(log.after(number)) as events,
        ):
            async for event in events:
                await exchange.send_event(event)
            await exchange.end_events(b"")


def _id_in(exchange: HttpExchange) -> str:
    return exchange.path.removeprefix(f"{RESPONSES}/").partition("/")[0]
