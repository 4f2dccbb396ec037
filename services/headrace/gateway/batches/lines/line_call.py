"""Call that the gateway makes for a line of a batch: no socket, no secret."""

from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from typing import Any

import msgspec

from headrace.domain.deadline import Deadline
from headrace.errors.table import row_of
from headrace.gateway.access.caller import Caller
from headrace.gateway.http.error_body import error_body, error_headers
from headrace.gateway.request.time_limit import ending_at
from headrace.gateway.timing.request_record import RequestRecord
from headrace.gateway.timing.stopwatch import SERIALIZE


class LineCall:
    """Caller that has sent everything, and stays until it has its answer, which is kept here."""

    def __init__(self, caller: Caller, record: RequestRecord, given: Mapping[str, str]) -> None:
        """`given`: headers of the request, by names in lower case."""
        self.caller = caller
        self.record = record
        self.headers: dict[str, str] = {}
        self.started = False
        self.status = 0
        self.body = b""
        self._given = given

    def header(self, name: str) -> str | None:
        return self._given.get(name)

    def limit(self, deadline: Deadline) -> AbstractAsyncContextManager[None]:
        return ending_at(deadline, "a request of a batch was answered")

    async def send_json(self, status: int, content: Any) -> None:
        self._keep(status, content)

    def refuse(self, error: Exception) -> None:
        """Answers with an error instead."""
        self.headers |= error_headers(error)
        self._keep(row_of(error).http_status, error_body(error))

    def _keep(self, status: int, content: Any) -> None:
        self.started, self.status, self.record.status = True, status, status
        self.body = msgspec.json.encode(content)
        self.record.stopwatch.lap(SERIALIZE)
        self.record.note_flush()
