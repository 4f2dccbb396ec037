"""One TCP connection of the REST bridge: uvicorn's, with an end to every wait for the client."""

import asyncio
from typing import Any

import msgspec
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from headrace.errors import HeadraceError, InvalidRequest, UploadTimeout
from headrace.errors.table import row_of
from headrace.gateway.error_body import error_body
from headrace.gateway.ledger import note_refusal

MAX_HEAD_BYTES = 64 * 1024
ABORT = "headrace.abort"
"""Name, among the extensions of the ASGI scope, of the call that cuts the connection at once."""


class HttpConnection(HttpToolsProtocol):
    """Cuts a connection whose request head is too slow or too long, or whose finished response nobody reads.

    While a request runs, its own deadline bounds how long a reader may stand still, not this class.
    """

    header_seconds = 10.0
    unread_seconds = 30.0

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._head_bytes = 0
        self._head_timer: asyncio.TimerHandle | None = None
        self._unread_timer: asyncio.TimerHandle | None = None
        self._unread_bytes = 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._expect_head()

    def connection_lost(self, exc: Exception | None) -> None:
        for timer in (self._head_timer, self._unread_timer):
            if timer is not None:
                timer.cancel()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self._head_timer is None or self.transport.is_closing():
            return
        self._head_bytes += len(data)
        if self._head_bytes > MAX_HEAD_BYTES:
            self._refuse_head(
                InvalidRequest(f"the head of the request has more than {MAX_HEAD_BYTES} bytes: send fewer headers")
            )

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._expect_head()
        self.scope["extensions"] = {ABORT: {"call": self.transport.abort}}

    def on_headers_complete(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None
        self._head_bytes = 0
        super().on_headers_complete()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self.transport.is_closing() or self.flow.write_paused:
            self._expect_reader()

    def timeout_keep_alive_handler(self) -> None:
        super().timeout_keep_alive_handler()
        self._expect_reader()

    def send_400_response(self, msg: str) -> None:
        """Says in the form of the API that a request cannot even be read."""
        self._refuse_head(InvalidRequest("the request is not valid HTTP/1.1"))

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

    def _refuse_head(self, error: HeadraceError) -> None:
        note_refusal(error)
        body = msgspec.json.encode(error_body(error))
        head = (
            f"HTTP/1.1 {row_of(error).http_status} Refused\r\ncontent-type: application/json\r\n"
            f"connection: close\r\ncontent-length: {len(body)}\r\n\r\n"
        )
        self.transport.write(head.encode() + body)
        self.transport.close()
        self._expect_reader()

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
