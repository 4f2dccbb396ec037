"""Admission of every HTTP request, whatever it asks for, before its work begins."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager

from headrace.domain.deadline import Deadline
from headrace.domain.ids import new_request_id
from headrace.errors import DeadlineExceeded, InvalidRequest
from headrace.gateway.config import GatewaySettings
from headrace.gateway.delivery.pipeline import Pipeline
from headrace.gateway.http.exchange import PARTING_SECONDS, HttpExchange
from headrace.gateway.openai.fields.field_names import named
from headrace.gateway.openai.model_body import M, ModelBody, ignored_fields, parse
from headrace.gateway.request.client_timeout import TIMEOUT_HEADER, client_timeout
from headrace.gateway.request.envelope import Envelope
from headrace.gateway.request.ledger import Ledger
from headrace.gateway.request.overflow import HEADER as OVERFLOW_HEADER
from headrace.gateway.request.overflow import Overflow
from headrace.gateway.request.request_class import CLASS_HEADER, TTFT_HEADER, class_of, first_token_seconds
from headrace.gateway.timing.request_span import request_span
from headrace.gateway.timing.stopwatch import ADMISSION, PARSE
from headrace.telemetry.logs import bound_request_id
from headrace.telemetry.traces import continued_trace, current_traceparent

_IGNORED_HEADER = "x-headrace-ignored-fields"


class Admission:
    """Chooses the model, opens the ledger entry and the trace, sets the deadline, and ends the work when the client
    leaves."""

    def __init__(self, settings: GatewaySettings, pipeline: Pipeline, ledger: Ledger) -> None:
        self._settings = settings
        self._pipeline = pipeline
        self._ledger = ledger
        self._overflow = Overflow(self._predicted_wait, settings.overflow, settings.overflow_wait_seconds)

    async def read(self, exchange: HttpExchange, schema: type[M], *, embeds: bool = False) -> M:
        """Reads a body. One that names no model is for the only one that the client may use. `embeds`: whether it asks
        for embeddings, not for text. Raises HeadraceError."""
        body = parse(schema, await exchange.read_body())
        if body.model:
            return body
        known = self._pipeline.fleet.models().items()
        fitting = [
            name
            for name, facts in known
            if bool(facts.embedding_size) == embeds and not facts.parent and exchange.caller.may_use(name)
        ]
        if len(fitting) != 1:
            raise InvalidRequest(f"model is required: {len(fitting)} models could be meant", param="model")
        return body.model_copy(update={"model": fitting[0]})

    async def answer(self, exchange: HttpExchange, body: M, answer: Callable[[M], Awaitable[None]]) -> None:
        """Answers a body, addressed to its overflow model where its own has no room or sleeps: the headers say so."""

        async def attempt(model: str) -> None:
            if model == body.model:
                await answer(body)
                return
            exchange.headers[OVERFLOW_HEADER] = body.model
            await answer(body.model_copy(update={"model": model}))

        await self._overflow.run(body.model, exchange.caller, attempt, lambda: exchange.started)

    @contextlib.asynccontextmanager
    async def open(
        self, exchange: HttpExchange, body: ModelBody, verb: str, *, caches: bool = False, is_detached: bool = False
    ) -> AsyncIterator[Envelope]:
        """Opens the block of a request, which traces call `verb`: OpenTelemetry's word, if any. `caches`: whether the
        cache may answer it unless the client opts out; `is_detached`: whether the client has left already, with leave.
        Raises HeadraceError, and ends the block with one at the deadline, and when the client leaves."""
        record = exchange.record
        record.stopwatch.lap(PARSE)
        record.operation, record.is_stream = verb, bool(getattr(body, "stream", None))
        if unknown := ignored_fields(body, self._settings.strict):
            # Not added: a second attempt names the same.
            exchange.headers[_IGNORED_HEADER] = named(unknown)
        exchange.caller.check_model(body.model)
        await self._pipeline.fleet.find(body.model)
        request_id = exchange.headers["x-request-id"]
        traceparent = exchange.header("traceparent") or ""
        exchange.in_ledger = True
        record.model = body.model
        with (
            bound_request_id(request_id),
            continued_trace(traceparent),
            request_span(record),
            self._ledger.open_request(request_id, body.model, record),
        ):
            envelope = self._envelope(exchange, body.model, request_id, caches)
            record.request_id = envelope.request_id
            if record.trace_id:
                exchange.headers["traceresponse"] = current_traceparent()
            record.stopwatch.lap(ADMISSION)
            with envelope.account.settled():
                async with _limited(exchange, envelope, is_detached):
                    yield envelope

    def _predicted_wait(self, model: str) -> float:
        return self._pipeline.fleet.predicted_wait(model)

    def _envelope(self, exchange: HttpExchange, model: str, client_id: str, caches: bool) -> Envelope:
        caller = exchange.caller
        seconds = client_timeout(exchange.header(TIMEOUT_HEADER)) or self._settings.default_timeout_seconds
        # A client may use one id for several requests; ids inside the platform must be unique.
        request_id = new_request_id(client_id)
        return Envelope(
            request_id=request_id,
            accepted=exchange.record.stopwatch.started,
            record=exchange.record,
            deadline=Deadline.after(caller.allowed_seconds(seconds)),
            tenant=caller.tenant,
            account=caller.open_account(request_id, model, exchange.headers.update),
            traceparent=current_traceparent() or (exchange.header("traceparent") or ""),
            priority_class=class_of(exchange.header(CLASS_HEADER)),
            first_token_seconds=first_token_seconds(exchange.header(TTFT_HEADER)),
            use_cache=(exchange.header("x-headrace-cache") or ("on" if caches else "off")) == "on",
        )


def _limited(exchange: HttpExchange, envelope: Envelope, is_detached: bool) -> AbstractAsyncContextManager[None]:
    """Returns a block that ends at the deadline, and when the client leaves that waits for it."""
    return _until(envelope.deadline) if is_detached else exchange.unless_client_leaves(envelope.deadline)


@contextlib.asynccontextmanager
async def _until(deadline: Deadline) -> AsyncIterator[None]:
    try:
        async with asyncio.timeout(deadline.remaining + PARTING_SECONDS):
            yield
    except TimeoutError:
        raise DeadlineExceeded("the deadline passed while nobody waited", stage="deliver") from None


def name_ignored(exchange: HttpExchange, names: Sequence[str]) -> None:
    """Adds fields without effect to those that the headers of an answer name, which has not started."""
    before = exchange.headers.get(_IGNORED_HEADER)
    exchange.headers[_IGNORED_HEADER] = f"{before}, {named(names)}" if before else named(names)
