"""Sends the requests of batches through the gateway, as whoever made the batch, in the class that waits for others."""

import contextlib

import msgspec
from starlette.types import ASGIApp

from headrace.access.key_record import KeyRecord
from headrace.errors import HeadraceError
from headrace.errors.table import row_of
from headrace.gateway.access.gate import Gate
from headrace.gateway.batches.lines.batch_input import BatchLine
from headrace.gateway.batches.lines.fair_places import FairPlaces
from headrace.gateway.batches.lines.inner_call import InnerAnswer, call_inside
from headrace.gateway.batches.lines.line_answer import request_id
from headrace.gateway.batches.storage.batch_record import BatchRecord
from headrace.gateway.config import GatewaySettings
from headrace.gateway.http.error_body import error_body, error_headers
from headrace.gateway.request.client_timeout import MAX_TIMEOUT_MS, TIMEOUT_HEADER
from headrace.gateway.request.request_class import CLASS_HEADER

LARGE_BYTES = 1024 * 1024
"""Bytes of a request above which one is sent at a time: each takes several times its size while it is read."""


class LineCaller:
    """Calls the gateway's own application, with a bound on how many requests of all batches run at once."""

    def __init__(self, app: ASGIApp, gate: Gate, settings: GatewaySettings) -> None:
        self._app = app
        self._gate = gate
        self._places = FairPlaces(settings.batch_concurrency)
        self._large_places = FairPlaces(1)

    async def call(self, batch: BatchRecord, line: BatchLine, seconds: float) -> InnerAnswer:
        """Returns the answer to one request of a batch, which may take so many seconds."""
        large = self._large_places.place(batch.tenant) if len(line.body) > LARGE_BYTES else contextlib.nullcontext()
        async with large, self._places.place(batch.tenant):
            key = None if batch.key is None else KeyRecord.model_validate(batch.key)
            try:
                caller = self._gate.caller_later(key)
            except HeadraceError as error:
                body = msgspec.json.encode(error_body(error))
                return InnerAnswer(row_of(error).http_status, error_headers(error), body)
            headers = {
                "x-request-id": request_id(batch.id, line.custom_id),
                CLASS_HEADER: "batch",
                TIMEOUT_HEADER: str(min(max(1, int(seconds * 1000)), MAX_TIMEOUT_MS)),
            }
            return await call_inside(self._app, batch.endpoint, line.body, caller, headers)
