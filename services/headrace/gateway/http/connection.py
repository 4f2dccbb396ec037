"""One TCP connection of the REST bridge: uvicorn's, with a limit on every wait for the client."""

import asyncio
import time
from typing import Any

import msgspec
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from headrace.errors import HeadraceError, InvalidRequest, Overloaded, UploadTimeout
from headrace.errors.table import row_of
from headrace.gateway.http.error_body import error_body, error_headers
from headrace.gateway.request.ledger import note_refusal
from headrace.gateway.timing.request_metrics import count_http

MAX_HEAD_BYTES = 64 * 1024
MAX_HEADERS = 128
MAX_FAREWELLS = 64
"""Maximum number of over-limit connections that get an error reply at once; the rest are closed."""
FAREWELL_SECONDS = 1.0
PARTING_SECONDS = 0.5
"""Seconds that a connection without a request has to send one when the server stops."""
RETRY_SECONDS = 1.0
ABORT = "headrace.abort"
"""Key, in the extensions of the ASGI scope, of the function that cuts the connection at once."""
BEGAN = "headrace.began"
"""Key, in the extensions of the ASGI scope, of the time at which the request began to arrive, in monotonic seconds."""


class HttpConnection(HttpToolsProtocol):
    """Cuts a connection that is over the limit, whose request head is too slow or too long, or whose finished response
    goes unread.

    While a request runs, its own deadline, not this class, limits how long a reader may stall.
    """

    max_connections = 4096
    header_seconds = 10.0
    unread_seconds = 30.0

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._head_bytes = 0
        self._head_timer: asyncio.TimerHandle | None = None
        self._unread_timer: asyncio.TimerHandle | None = None
        self._unread_bytes = 0
        self._is_refused = False
        self._is_upgraded = False
        """Whether the connection is a WebSocket now, and another protocol's."""
        self._is_parting = False
        """Whether the server is stopping: the connection ends after its first request, or without one."""
        self._mistake: InvalidRequest | None = None
        """Error that this class found in the head and ended its parsing with."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if len(self.connections) > self.max_connections:
            self._turn_away()
        else:
            self._expect_head()

    def connection_lost(self, exc: Exception | None) -> None:
        for timer in (self._head_timer, self._unread_timer):
            if timer is not None:
                timer.cancel()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._is_refused:
            return
        super().data_received(data)
        if self.transport.is_closing() or self._is_upgraded:
            return
        if self._head_timer is None and (self.cycle is None or self.cycle.response_complete):
            # Line breaks before a head end the idle time, so the time limit of the head must begin.
            self._expect_head()
        if self._head_timer is None:
            return
        self._head_bytes += len(data)
        if self._head_bytes > MAX_HEAD_BYTES:
            self._refuse_head(
                InvalidRequest(f"the head of the request has more than {MAX_HEAD_BYTES} bytes: send fewer headers")
            )

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._expect_head()
        self.scope["extensions"] = {ABORT: {"call": self.transport.abort}, BEGAN: {"time": time.monotonic()}}

    def on_header(self, name: bytes, value: bytes) -> None:
        super().on_header(name, value)
        if len(self.headers) > MAX_HEADERS:
            self._mistake = InvalidRequest(f"the request has more than {MAX_HEADERS} headers: send fewer")
            raise self._mistake

    def on_headers_complete(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None
        self._head_bytes = 0
        super().on_headers_complete()
        if self._is_parting:
            self.cycle.keep_alive = False

    def handle_websocket_upgrade(self) -> None:
        self._is_upgraded = True
        super().handle_websocket_upgrade()

    def shutdown(self) -> None:
        """Ends the connection after the running request. A connection that was just accepted may have its first request
        in flight, and closing it now would reset that request."""
        if not self._had_request and not self._is_refused:
            self._is_parting = True
            self.loop.call_later(PARTING_SECONDS, self._part)
        else:
            super().shutdown()

    @property
    def _had_request(self) -> bool:
        return bool(self.cycle)

    def _part(self) -> None:
        if not self._had_request:
            self.transport.close()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self.transport.is_closing() or self.flow.write_paused:
            self._expect_reader()

    def timeout_keep_alive_handler(self) -> None:
        super().timeout_keep_alive_handler()
        self._expect_reader()

    def send_400_response(self, msg: str) -> None:
        """Reports in the form of the API that a request cannot even be read."""
        self._refuse_head(self._mistake or InvalidRequest("the request is not valid HTTP/1.1"))

    def _expect_head(self) -> None:
        if self._head_timer is None:
            self._head_timer = self.loop.call_later(self.header_seconds, self._head_is_late)

    def _head_is_late(self) -> None:
        self._head_timer = None
        if self._head_bytes and not self.transport.is_closing():
            self._refuse_head(
                UploadTimeout(
                    f"the head of the request did not arrive within {self.header_seconds:g} s", stage="upload"
                )
            )
        else:
            self.transport.abort()

    def _turn_away(self) -> None:
        """Answers before a request was read. Incoming bytes are dropped for a while: closing the connection over them
        would take the answer from the client."""
        self._is_refused = True
        if len(self.connections) > self.max_connections + MAX_FAREWELLS:
            self.transport.abort()
            return
        self._write_refusal(
            Overloaded(
                f"{self.max_connections} connections are open already: use fewer, or come back later",
                stage="accept",
                retry_after=RETRY_SECONDS,
            )
        )
        self.transport.write_eof()
        self._unread_timer = self.loop.call_later(FAREWELL_SECONDS, self.transport.abort)

    def _refuse_head(self, error: HeadraceError) -> None:
        self._is_refused = True
        self._write_refusal(error)
        self.transport.close()
        self._expect_reader()

    def _write_refusal(self, error: HeadraceError) -> None:
        note_refusal(error)
        count_http("unread", "other", row_of(error).http_status)
        body = msgspec.json.encode(error_body(error))
        headers = {
            "content-type": "application/json",
            "connection": "close",
            "content-length": str(len(body)),
            **error_headers(error),
        }
        lines = [
            f"HTTP/1.1 {row_of(error).http_status} Refused",
            *(f"{name}: {value}" for name, value in headers.items()),
        ]
        self.transport.write("\r\n".join([*lines, "", ""]).encode() + body)

    def _expect_reader(self) -> None:
        if self._unread_timer is not None:
            self._unread_timer.cancel()
        self._unread_bytes = self.transport.get_write_buffer_size()
        self._unread_timer = self.loop.call_later(self.unread_seconds, self._look_whether_it_reads)

    def _look_whether_it_reads(self) -> None:
        self._unread_timer = None
        if 0 < self.transport.get_write_buffer_size() < self._unread_bytes:
            self._expect_reader()
        elif self.transport.is_closing() or (self.flow.write_paused and self.cycle.response_complete):
            self.transport.abort()
