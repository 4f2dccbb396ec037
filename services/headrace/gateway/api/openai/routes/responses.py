"""The routes of /v1/responses."""

import asyncio
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager
from functools import partial

from headrace.domain.deadline import Deadline
from headrace.domain.message import Message
from headrace.domain.to_encode import ConversationToEncode
from headrace.errors import HeadraceError, InvalidRequest, Unavailable
from headrace.gateway.api.entry.api_call import AnswerWhole, ApiCall
from headrace.gateway.api.entry.http_admission import HttpAdmission, name_ignored
from headrace.gateway.api.openai.response import Choice
from headrace.gateway.api.openai.responses.event_log import EventLog
from headrace.gateway.api.openai.responses.event_logs import EventLogs
from headrace.gateway.api.openai.responses.response_archive import SIGN_OF_LIFE_SECONDS, ResponseArchive
from headrace.gateway.api.openai.responses.response_body import ResponseBody
from headrace.gateway.api.openai.responses.response_events import ResponseEvents
from headrace.gateway.api.openai.responses.response_items import ITEM_REFERENCE, kind_of
from headrace.gateway.api.openai.responses.response_object import (
    CANCELLED,
    IN_PROGRESS,
    QUEUED,
    new_response_id,
    response_object,
)
from headrace.gateway.api.openai.responses.response_request import (
    input_messages,
    response_conversation,
    response_options,
)
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
from headrace.lifecycle import Background

_PATH = "/v1/responses"
CANCEL_POLL_SECONDS = 0.5
"""Seconds between looks at whether a background response was cancelled, perhaps through another gateway."""
SIGN_OF_LIFE_INTERVAL = SIGN_OF_LIFE_SECONDS / 5
_log = logging.getLogger(__name__)


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
    ) -> None:
        self._settings = settings
        self._pipeline = pipeline
        self._archive = archive
        self._background = background
        self._logs = EventLogs()
        self._admission = HttpAdmission(settings, pipeline, ledger)

    def handlers(self) -> Mapping[str, Mapping[str, Handler]]:
        return {
            _PATH: {"POST": self.create},
            f"{_PATH}/input_tokens": {"POST": self.count_input_tokens},
            f"{_PATH}/{{id}}": {"GET": self.show, "DELETE": self.delete},
            f"{_PATH}/{{id}}/cancel": {"POST": self.cancel},
            f"{_PATH}/{{id}}/input_items": {"GET": self.show_input},
        }

    def whole_answers(self) -> Mapping[str, AnswerWhole]:
        return {_PATH: self.respond}

    async def create(self, exchange: HttpExchange) -> None:
        await self.respond(exchange, await exchange.read_body(), exchange)

    async def respond(self, call: ApiCall, content: bytes, client: HttpExchange | None = None) -> None:
        """Answers with a response. `client`: takes the events of a stream, and may leave one in the background; None
        answers whole. Raises HeadraceError."""
        body = await self._read(call, content)
        earlier = await self._earlier(call, body)
        if body.background and client is not None:
            await self._create_in_background(self._created(call, body, earlier), client)
            return
        stream = client if body.stream else None
        await self._admission.answer(call, body, partial(self._answer, call, earlier=earlier, stream=stream))

    async def _answer(
        self, call: ApiCall, body: ResponseBody, earlier: Sequence[Message], stream: HttpExchange | None
    ) -> None:
        created = self._created(call, body, earlier)
        async with self._running(created, stream) as envelope, aclosing(self._events(created, envelope)) as events:
            async for event in events:
                if stream is not None:
                    await stream.send_event(typed_event(event))
            if stream is not None:
                await stream.end_events(b"")
                return
            if body.store is not False and not created.events.response["store"]:
                name_ignored(call, ["store"])
            await call.send_json(200, created.events.response)

    def _created(self, call: ApiCall, body: ResponseBody, earlier: Sequence[Message]) -> "_Created":
        facts = self._pipeline.fleet.models().get(body.model) or ModelFacts(body.model)
        return _Created(call, body, facts, earlier)

    async def show(self, exchange: HttpExchange) -> None:
        query, response_id = read_stream_query(exchange.query), _id_in(exchange)
        stored = await self._archive.get(exchange.caller.tenant, response_id)
        if not query.is_stream:
            await exchange.send_json(200, stored.response)
            return
        log = self._logs.find(exchange.caller.tenant, response_id)
        if log is None:
            raise InvalidRequest(
                "stream works for responses that were created with background and stream, as long as the gateway that "
                "wrote them keeps their events: ask without stream",
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
        self._logs.forget(exchange.caller.tenant, response_id)
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

    async def _read(self, call: ApiCall, content: bytes) -> ResponseBody:
        """Reads a body, with the items in the place of references to them, as far as they are kept here."""
        body = self._admission.read(call, ResponseBody, content)
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

    @asynccontextmanager
    async def _running(self, created: "_Created", stream: HttpExchange | None) -> AsyncIterator[Envelope]:
        """Opens the block of a response in the foreground."""

        def failure(error: BaseException) -> Event:
            return b"".join(map(typed_event, created.events.fail(error_body(error))))

        async with self._admission.open(created.call, created.body, "chat") as envelope:
            if stream is None:
                yield envelope
                return
            async with event_stream(stream, self._settings.heartbeat_seconds, failure):
                yield envelope

    async def _events(self, created: "_Created", envelope: Envelope) -> AsyncGenerator[Json, None]:
        """Yields the events of a response. It is stored before the last one, so that a client may continue it then."""
        events = created.events
        job = await self._pipeline.prepare.chat(created.body.model, created.conversation, created.options, envelope)
        choice = Choice(0, job.prompts[0], is_first_of_prompt=True)
        async with aclosing(self._pipeline.generate(job)) as pieces:
            async for piece in pieces:
                if not choice.has_started:
                    for event in events.begin():
                        yield event
                choice.add(piece)
                for event in events.push(job, piece):
                    yield event
        last = list(events.end(choice))
        if created.body.background and await self._is_cancelled(created):
            return
        if created.body.store is not False:
            created.stored.messages.append(events.answer())
            # The answer is made and paid for: a client that would send it again gains nothing from an error.
            events.response["store"] = await self._archive.put(envelope.tenant, created.stored)
        for event in last:
            yield event

    async def _create_in_background(self, created: "_Created", client: HttpExchange) -> None:
        body = created.body
        if body.store is False:
            raise InvalidRequest("a response in the background is stored: leave store out", param="store")
        await self._pipeline.fleet.find(body.model)
        tenant, response_id = created.call.caller.tenant, str(created.events.response["id"])
        told = await self._archive.tell_running(tenant, response_id)
        if not told or not await self._archive.put(tenant, created.stored):
            raise Unavailable("the response could not be stored, and could not be found later: send it again")
        if not body.stream:
            await client.send_json(200, created.events.response)
            self._background.start(self._run_until_cancelled(created), f"response-{response_id}")
            return
        created.log = self._logs.open(tenant, response_id)
        self._background.start(self._run_until_cancelled(created), f"response-{response_id}")
        await self._follow(client, created.log, -1)

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

    async def _run_until_cancelled(self, created: "_Created") -> None:
        steps = self._run(created), self._wait_for_cancel(created), self._tell_running(created)
        tasks = [asyncio.create_task(step) for step in steps]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            if created.log is not None:
                created.log.close()

    async def _run(self, created: "_Created") -> None:
        try:
            async with (
                self._admission.open(created.call, created.body, "chat", is_detached=True) as envelope,
                aclosing(self._events(created, envelope)) as events,
            ):
                async for event in events:
                    created.note(event)
        except Exception as error:  # noqa: BLE001 - clients that ask for the response learn of it
            if not isinstance(error, HeadraceError):
                _log.exception("unexpected failure in a background response")
            for event in created.events.fail(error_body(error)):
                created.note(event)
                await self._archive.put(created.call.caller.tenant, created.stored)

    async def _wait_for_cancel(self, created: "_Created") -> None:
        while not await self._is_cancelled(created):  # noqa: ASYNC110 - perhaps through another gateway
            await asyncio.sleep(CANCEL_POLL_SECONDS)

    async def _tell_running(self, created: "_Created") -> None:
        while True:
            await asyncio.sleep(SIGN_OF_LIFE_INTERVAL)
            await self._archive.tell_running(created.call.caller.tenant, str(created.events.response["id"]))

    async def _is_cancelled(self, created: "_Created") -> bool:
        """Whether a response was cancelled, as far as the archive can tell."""
        try:
            stored = await self._archive.get(created.call.caller.tenant, str(created.events.response["id"]))
        except HeadraceError:
            return False
        return bool(stored.response["status"] == CANCELLED)


class _Created:
    """A response from its creation on."""

    def __init__(self, call: ApiCall, body: ResponseBody, facts: ModelFacts, earlier: Sequence[Message]) -> None:
        """Raises InvalidRequest."""
        self.call = call
        self.body = body
        self.log: EventLog | None = None
        """Log of the events, where they may be read again."""
        self.options = response_options(body)
        self.conversation = response_conversation(body, earlier)
        status = QUEUED if body.background else IN_PROGRESS
        self.events = ResponseEvents(response_object(body, facts, new_response_id(), status), body.functions.names)
        self.stored = StoredResponse(self.events.response, [*earlier, *input_messages(body)], _input_items(body))

    def note(self, event: Json) -> None:
        """Keeps an event for clients that read again."""
        if self.log is not None:
            self.log.append(typed_event(event))


def _id_in(exchange: HttpExchange) -> str:
    return exchange.path.removeprefix(f"{_PATH}/").partition("/")[0]


def _input_items(body: ResponseBody) -> list[Json]:
    """Returns the input as items, each with an id."""
    if isinstance(body.input, str):
        content = [{"type": "input_text", "text": body.input}]
        return [{"id": "item_0", "type": "message", "role": "user", "content": content}]
    return [{"id": f"item_{index}", "type": "message"} | item for index, item in enumerate(body.input)]
