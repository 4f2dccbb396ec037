"""Answers the requests of batches for the tenant that made the batch, in the class that waits for others."""

import contextlib
import logging
from collections.abc import Mapping

from headrace.access.key_record import KeyRecord
from headrace.errors import HeadraceError
from headrace.gateway.access.caller import ANYONE
from headrace.gateway.access.gate import Gate
from headrace.gateway.batches.lines.batch_input import BatchLine
from headrace.gateway.batches.lines.fair_places import FairPlaces
from headrace.gateway.batches.lines.line_answer import request_id
from headrace.gateway.batches.lines.line_call import LineCall
from headrace.gateway.batches.lines.line_endpoint import LineEndpoint
from headrace.gateway.batches.storage.batch_record import BatchRecord
from headrace.gateway.config import GatewaySettings
from headrace.gateway.http.bodies.counted_body import CountedBody
from headrace.gateway.request.client_timeout import MAX_TIMEOUT_MS, TIMEOUT_HEADER
from headrace.gateway.request.ledger import note_refusal
from headrace.gateway.request.request_class import CLASS_HEADER
from headrace.gateway.timing.recent_requests import RecentRequests
from headrace.gateway.timing.request_metrics import count_http
from headrace.gateway.timing.request_record import RequestRecord
from headrace.telemetry.large_garbage import collect_soon

LARGE_BYTES = 1024 * 1024
"""Bytes of a request above which one is answered at a time: each takes several times its size while it is read."""
_log = logging.getLogger(__name__)


class LineCaller:
    """Calls the endpoints of the gateway, with a bound on how many requests of all batches run at once."""

    def __init__(
        self, endpoints: Mapping[str, LineEndpoint], gate: Gate, recent: RecentRequests, settings: GatewaySettings
    ) -> None:
        """`endpoints`: by path. `recent`: remembers the requests, like those of other clients."""
        self._endpoints = endpoints
        self._gate = gate
        self._recent = recent
        self._settings = settings
        self._places = FairPlaces(settings.batch_concurrency)
        self._large_places = FairPlaces(1)

    async def call(self, batch: BatchRecord, line: BatchLine, seconds: float) -> LineCall:
        """Returns the answered call of one request of a batch, which may take so many seconds. Scopes, models, limits
        and filters hold as if the tenant had sent it over HTTP. Cancelling ends the request."""
        large = self._large_places.place(batch.tenant) if len(line.body) > LARGE_BYTES else contextlib.nullcontext()
        async with large, self._places.place(batch.tenant):
            call = _call(batch, line, seconds)
            try:
                await self._answer(call, batch, line.body)
            except Exception as error:  # noqa: BLE001 - this is the boundary of a request
                note_refusal(error, call.record)
                if not isinstance(error, HeadraceError):
                    _log.exception("unexpected failure", extra={"request_id": call.record.client_id})
                call.refuse(error)
            finally:
                count_http(batch.endpoint, "POST", call.status)
                self._recent.add(call.record)
                collect_soon(len(line.body))
            return call

    async def _answer(self, call: LineCall, batch: BatchRecord, content: bytes) -> None:
        """Raises HeadraceError, at first Unauthenticated and Forbidden for a key with fewer rights than it had."""
        key = None if batch.key is None else KeyRecord.model_validate(batch.key)
        call.caller = self._gate.caller_later(key)
        endpoint = self._endpoints[batch.endpoint]
        call.caller.check_scope(endpoint.scopes)
        body = CountedBody(self._settings.max_body_bytes, self._settings.max_body_elements)
        await body.add(content)
        await endpoint.answer(call, content)


def _call(batch: BatchRecord, line: BatchLine, seconds: float) -> LineCall:
    record = RequestRecord(client_id=request_id(batch.id, line.custom_id), route=batch.endpoint, tenant=batch.tenant)
    record.note_path(batch.endpoint)
    headers = {CLASS_HEADER: "batch", TIMEOUT_HEADER: str(min(max(1, int(seconds * 1000)), MAX_TIMEOUT_MS))}
    return LineCall(ANYONE, record, headers)
