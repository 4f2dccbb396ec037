"""Admission of requests whose terms are in headers: those over HTTP, and the lines of batches."""

import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence

from headrace.errors import InvalidRequest
from headrace.gateway.api.entry.api_call import ApiCall
from headrace.gateway.api.entry.field_names import named
from headrace.gateway.api.entry.model_body import M, ModelBody, ignored_fields, parse
from headrace.gateway.config import GatewaySettings
from headrace.gateway.delivery.pipeline import Pipeline
from headrace.gateway.request.admission import Admission
from headrace.gateway.request.answer_name import AnswerName
from headrace.gateway.request.ask import Ask
from headrace.gateway.request.client_timeout import TIMEOUT_HEADER, client_timeout
from headrace.gateway.request.envelope import Envelope
from headrace.gateway.request.ledger import Ledger
from headrace.gateway.request.overflow import HEADER as OVERFLOW_HEADER
from headrace.gateway.request.request_class import CLASS_HEADER, TTFT_HEADER, class_of, first_token_seconds
from headrace.gateway.request.time_limit import ending_at
from headrace.gateway.resumption.resumption import Resumption
from headrace.gateway.timing.stopwatch import PARSE

CACHE_HEADER = "x-headrace-cache"
TERMS = (CLASS_HEADER, TTFT_HEADER, CACHE_HEADER)
"""Headers that change how a request is answered."""
_IGNORED_HEADER = "x-headrace-ignored-fields"


class HttpAdmission:
    """Reads bodies and headers, and ends the work when the client leaves."""

    def __init__(self, settings: GatewaySettings, pipeline: Pipeline, ledger: Ledger) -> None:
        self._settings = settings
        self._fleet = pipeline.fleet
        self._admission = Admission(settings, pipeline.fleet, ledger)

    def read(
        self,
        call: ApiCall,
        schema: type[M],
        content: bytes,
        *,
        embeds: bool = False,
        resumption: Resumption | None = None,
    ) -> M:
        """Reads a body. One that names no model is for the only one that the client may use. `embeds`: whether it asks
        for embeddings, not for text. `resumption`: the stream that is resumed, whose model stays. Raises
        HeadraceError."""
        body = parse(schema, content)
        if resumption is not None:
            return self._resumed(call, body, resumption.request.model)
        if body.model:
            model = self._fleet.names.resolve(body.model)
            return body if model == body.model else body.model_copy(update={"model": model})
        known = self._fleet.models().items()
        fitting = [
            name
            for name, facts in known
            if bool(facts.embedding_size) == embeds and not facts.parent and call.caller.may_use(name)
        ]
        if len(fitting) != 1:
            raise InvalidRequest(f"model is required: {len(fitting)} models could be meant", param="model")
        return body.model_copy(update={"model": fitting[0]})

    def _resumed(self, call: ApiCall, body: M, model: str) -> M:
        if body.model and body.model != model:
            call.headers[OVERFLOW_HEADER] = body.model
        return body.model_copy(update={"model": model})

    async def answer(
        self, call: ApiCall, body: M, answer: Callable[[M], Awaitable[None]], *, may_overflow: bool = True
    ) -> None:
        """Answers a body, addressed to its overflow model where its own has no room or sleeps: the headers say so."""
        if not may_overflow:
            await answer(body)
            return

        async def attempt(model: str) -> None:
            if model == body.model:
                await answer(body)
                return
            call.headers[OVERFLOW_HEADER] = body.model
            await answer(body.model_copy(update={"model": model}))

        await self._admission.answer(body.model, call.caller, attempt, lambda: call.started)

    @contextlib.asynccontextmanager
    async def open(
        self,
        call: ApiCall,
        body: ModelBody,
        operation: str,
        *,
        caches: bool = False,
        is_detached: bool = False,
        answer: AnswerName | None = None,
    ) -> AsyncIterator[Envelope]:
        """Opens the block of a request, which traces call `operation`: OpenTelemetry's word, if any. `caches`: whether
        the cache may answer it unless the client opts out; `is_detached`: whether the client has left already, with
        leave; `answer`: the name of the answer, where it has one already. Raises HeadraceError, and ends the block with
        one at the deadline, and when the client leaves."""
        record = call.record
        record.stopwatch.lap(PARSE)
        record.operation, record.is_stream = operation, bool(getattr(body, "stream", None))
        if unknown := ignored_fields(body, self._settings.strict):
            # Not added: a second attempt names the same.
            call.headers[_IGNORED_HEADER] = named(unknown)
        async with self._admission.open(self._ask(call, body.model, caches, answer)) as envelope:
            deadline = envelope.deadline
            async with ending_at(deadline, "the client had left") if is_detached else call.limit(deadline):
                yield envelope

    def _ask(self, call: ApiCall, model: str, caches: bool, answer: AnswerName | None) -> Ask:
        return Ask(
            model=model,
            caller=call.caller,
            record=call.record,
            seconds=client_timeout(call.header(TIMEOUT_HEADER)) or self._settings.default_timeout_seconds,
            traceparent=call.header("traceparent") or "",
            priority_class=class_of(call.header(CLASS_HEADER)),
            first_token_seconds=first_token_seconds(call.header(TTFT_HEADER)),
            use_cache=(call.header(CACHE_HEADER) or ("on" if caches else "off")) == "on",
            answer=answer,
            add_headers=call.headers.update,
        )


def name_ignored(call: ApiCall, names: Sequence[str]) -> None:
    """Adds fields without effect to the list in the headers of an answer that has not started."""
    before = call.headers.get(_IGNORED_HEADER)
    call.headers[_IGNORED_HEADER] = f"{before}, {named(names)}" if before else named(names)
