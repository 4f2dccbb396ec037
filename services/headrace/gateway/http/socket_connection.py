"""One WebSocket connection (RFC 6455): uvicorn's, with the bounds that requests over HTTP have."""

import asyncio
from collections import deque
from typing import Any

from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.frames import CloseCode, Frame

from headrace.errors import Overloaded
from headrace.gateway.http.bodies.upload import Upload
from headrace.gateway.http.bodies.upload_budget import UploadBudget
from headrace.gateway.http.connection import ABORT

FEED_BYTES = 4 * 1024
"""Bytes that are parsed before other connections have their turn: they may be frames of six bytes each."""
MAX_FRAMES = 16 * 1024
"""Frames of one message."""
ARRIVING = "headrace.arriving"
"""Key, in the extensions of the ASGI scope, of the function that tells whether part of a message has arrived."""


class SocketConnection(WebSocketsSansIOProtocol):
    """Reads no further than one message that waits, counts what arrives of it, and cuts a client that does not read.

    Its application is asked for an answer to the handshake before anything else is read.
    """

    body_seconds = 60.0
    uploads: UploadBudget
    """Budget of all bodies and messages that arrive."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._upload = Upload(self.uploads)
        self._unparsed: deque[bytes] = deque()
        self._parsing: asyncio.Handle | None = None
        self._late: asyncio.TimerHandle | None = None
        self._frame_count = 0
        self._has_message = False
        """Whether a message is whole, and waits for the application."""

    def connection_lost(self, exc: Exception | None) -> None:
        self._drop()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if not self.handshake_initiated:
            super().data_received(data)
            return
        self._unparsed.extend(data[start : start + FEED_BYTES] for start in range(0, len(data), FEED_BYTES))
        self.transport.pause_reading()
        self._continue()

    def handle_connect(self, event: Any) -> None:
        super().handle_connect(event)
        if not self.handshake_complete:
            self.scope["extensions"] |= {
                ABORT: {"call": self.transport.abort},
                ARRIVING: {"call": lambda: self._late is not None},
            }

    async def receive(self) -> Any:
        """Returns the next event. From then on the message no longer counts as arriving."""
        event = await super().receive()
        if event["type"] == "websocket.receive" and self.queue.empty():
            self._has_message = False
            self._upload.end()
        self._continue()
        return event

    async def send(self, message: Any) -> None:
        await super().send(message)
        if message["type"] == "websocket.accept":
            self._continue()

    def handle_cont(self, event: Frame) -> None:
        self._frame_count += 1
        if self._frame_count > MAX_FRAMES:
            self._refuse(CloseCode.MESSAGE_TOO_BIG, f"a message has at most {MAX_FRAMES} frames")
        else:
            super().handle_cont(event)

    def handle_text(self, event: Frame) -> None:
        self._frame_count = 1
        super().handle_text(event)

    def handle_bytes(self, event: Frame) -> None:
        self._frame_count = 1
        super().handle_bytes(event)

    def handle_ping(self) -> None:
        super().handle_ping()
        self._end_control()

    def handle_pong(self, event: Frame) -> None:
        super().handle_pong(event)
        self._end_control()

    def send_receive_event_to_app(self) -> None:
        self._end_late()
        if self.curr_msg_data_type == "text" and not _is_utf8(b"".join(self.frames)):
            self._refuse(CloseCode.INVALID_DATA, "a message must be UTF-8")
        else:
            self._has_message = True
            super().send_receive_event_to_app()

    def resume_writing(self) -> None:
        super().resume_writing()
        self._continue()

    def keepalive_timeout(self) -> None:
        """Cuts a client that answers no ping: it would not read what ends the connection in order either."""
        self._drop()
        self.transport.abort()

    def _continue(self) -> None:
        """Parses what has arrived, a little at a time, until a message waits. Reads on once all is parsed."""
        if self._parsing is None:
            self._parsing = self.loop.call_soon(self._parse)

    def _parse(self) -> None:
        self._parsing = None
        is_ready = self.handshake_complete and self.writable.is_set() and not self._has_message
        if self.transport.is_closing() or not (is_ready or self.close_sent):
            return
        if not self._unparsed:
            self.transport.resume_reading()
            return
        part = self._unparsed.popleft()
        try:
            self._upload.arrive(len(part))
        except Overloaded as error:
            self._refuse(CloseCode.TRY_AGAIN_LATER, error.message)
            return
        self._expect_rest()
        super().data_received(part)
        self._continue()

    def _expect_rest(self) -> None:
        if self._late is None:
            self._late = self.loop.call_later(self.body_seconds, self._is_late)

    def _end_late(self) -> None:
        if self._late is not None:
            self._late.cancel()
            self._late = None

    def _end_control(self) -> None:
        """Forgets that bytes have arrived, unless they belong to a message in several frames."""
        if self.conn.current_size is None and not self._has_message:
            self._end_late()
            self._upload.end()

    def _is_late(self) -> None:
        self._late = None
        self._refuse(CloseCode.POLICY_VIOLATION, f"the message did not arrive within {self.body_seconds:g} s")

    def _refuse(self, code: CloseCode, reason: str) -> None:
        """Ends the connection with a reason, which has at most 123 bytes."""
        self._drop()
        if not self.close_sent and not self.transport.is_closing():
            self.conn.send_close(code, reason[:120])
            self.handle_parser_exception()

    def _drop(self) -> None:
        """Forgets what has arrived."""
        self._end_late()
        self._upload.end()
        self._unparsed.clear()
        self.frames = []


def _is_utf8(content: bytes) -> bool:
    try:
        content.decode()
    except UnicodeDecodeError:
        return False
    return True
