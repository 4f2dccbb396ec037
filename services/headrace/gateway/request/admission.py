"""Admission of every request that asks a model for work, whichever API it came by."""

import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Protocol, TypeVar

from headrace.domain.deadline import Deadline
from headrace.domain.ids import new_request_id
from headrace.gateway.access.caller import Caller
from headrace.gateway.config import GatewaySettings
from headrace.gateway.request.answer_name import AnswerName
from headrace.gateway.request.ask import Ask
from headrace.gateway.request.envelope import Envelope
from headrace.gateway.request.ledger import Ledger
from headrace.gateway.request.overflow import Overflow
from headrace.gateway.timing.request_span import request_span
from headrace.gateway.timing.stopwatch import ADMISSION
from headrace.telemetry.logs import bound_request_id
from headrace.telemetry.traces import continued_trace, current_traceparent

T = TypeVar("T")


class Models(Protocol):
    """Models that the platform serves."""

    async def find(self, name: str) -> object:
        """Raises ModelNotFound, or Unavailable while it is unknown whether there is such a model."""

    def predicted_wait(self, name: str) -> float:
        """Returns the seconds until a model is awake."""


class Admission:
    """Chooses the model, opens the ledger entry, the trace and the account, and sets the deadline."""

    def __init__(self, settings: GatewaySettings, models: Models, ledger: Ledger) -> None:
        self._models = models
        self._ledger = ledger
        self._overflow = Overflow(self._predicted_wait, settings.overflow, settings.overflow_wait_seconds)

    async def answer(
        self, model: str, caller: Caller, attempt: Callable[[str], Awaitable[T]], has_started: Callable[[], bool]
    ) -> T:
        """Calls `attempt` with the model that is to answer: the one asked for, or its overflow model where that has no
        room or sleeps. Raises what the last attempt raises."""
        return await self._overflow.run(model, caller, attempt, has_started)

    @contextlib.asynccontextmanager
    async def open(self, ask: Ask) -> AsyncIterator[Envelope]:
        """Opens the block of a request. Raises Forbidden, ModelNotFound and Overloaded, and InvalidRequest."""
        record = ask.record
        ask.caller.check_model(ask.model)
        await self._models.find(ask.model)
        record.model, record.is_admitted = ask.model, True
        with (
            bound_request_id(record.client_id),
            continued_trace(ask.traceparent),
            request_span(record),
            self._ledger.open_request(record.client_id, ask.model, record),
        ):
            envelope = _envelope(ask)
            record.request_id = envelope.request_id
            if record.trace_id:
                ask.add_headers({"traceresponse": envelope.traceparent})
            record.stopwatch.lap(ADMISSION)
            with envelope.account.settled():
                yield envelope

    def _predicted_wait(self, model: str) -> float:
        return self._models.predicted_wait(model)


def _envelope(ask: Ask) -> Envelope:
    # A client may use one id for several requests; ids inside the platform must be unique.
    request_id = new_request_id(ask.record.client_id)
    return Envelope(
        request_id=request_id,
        accepted=ask.record.stopwatch.started,
        record=ask.record,
        deadline=Deadline.after(ask.caller.allowed_seconds(ask.seconds)),
        tenant=ask.caller.tenant,
        account=ask.caller.open_account(request_id, ask.model, ask.add_headers),
        traceparent=current_traceparent() or ask.traceparent,
        priority_class=ask.priority_class,
        first_token_seconds=ask.first_token_seconds,
        use_cache=ask.use_cache,
        answer=ask.answer or AnswerName(request_id),
    )
