"""One HTTP request and its response, below any framework: bounded bodies, whole events, a client that may
disconnect."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Any

import msgspec
from starlette.types import Message, Receive, Scope, Send

from headrace.domain.deadline import Deadline
from headrace.errors import DeadlineExceeded, PayloadTooLarge, RequestCancelled, UnsupportedMediaType, UploadTimeout
from headrace.gateway.access.caller import ANYONE
from headrace.gateway.config import GatewaySettings
from headrace.gateway.http.bodies.content_coding import ACCEPTED, check_coding, decoded
from headrace.gateway.http.bodies.counted_body import CountedBody
from headrace.gateway.http.bodies.upload import Upload
from headrace.gateway.http.bodies.upload_budget import UploadBudget
from headrace.gateway.http.connection import ABORT, BEGAN
from headrace.gateway.http.error_body import error_body
from headrace.gateway.request.client_timeout import TIMEOUT_HEADER, client_timeout
from headrace.gateway.request.time_limit import PARTING_SECONDS
from headrace.gateway.timing.request_record import RequestRecord
from headrace.gateway.timing.stopwatch import RECEIVE, SERIALIZE, Stopwatch
from headrace.gateway.timing.timings_format import timing_headers

_encode = msgspec.json.Encoder().encode
Event = bytes
DONE: Event = b"data: [DONE]\n\n"
PING: Event = b": ping\n\n"
DROP_SECONDS = 5.0
DROP_BYTES = 64 * 1024 * 1024
"""Maximum bytes of the rest of a refused body that are read and dropped: if reading stopped, the connection would break
before the client has read the answer."""


def data_event(content: Any, following: bytes = b"") -> Event:
    """A server-sent event with a JSON payload. `following`: further lines of it, such as its id: clients that are no
    parsers of events look at its beginning."""
    return b"data: " + _encode(content) + b"\n" + following + b"\n"


def typed_event(content: dict[str, Any], following: bytes = b"") -> Event:
    """A server-sent event whose name is the type in its payload. `following`: further lines of it, as `data_event`
    has them."""
    kind: str = content["type"]
    return b"event: " + kind.encode() + b"\n" + data_event(content, following)


_EVENT_HEADERS = {
    "content-type": "text/event-stream; charset=utf-8",
    "cache-control": "no-cache",
    "x-accel-buffering": "no",
}


class HttpExchange:
    """Reads the body, then writes either one JSON response or a stream of server-sent events."""

    def __init__(
        self, scope: Scope, receive: Receive, send: Send, settings: GatewaySettings, uploads: UploadBudget
    ) -> None:
        self.path: str = scope["path"]
        self.query: bytes = scope.get("query_string", b"")
        self._receive = receive
        self._send = send
        self._settings = settings
        self._uploads = uploads
        self._extensions: dict[str, Any] = scope.get("extensions") or {}
        self._request_headers = {key.decode("latin-1"): value.decode("latin-1") for key, value in scope["headers"]}
        self.host_count = sum(key == b"host" for key, _ in scope["headers"])
        self.http_version: str = scope.get("http_version", "1.1")
        self.headers: dict[str, str] = {}
        """Headers of the response. May be extended until the response starts."""
        self.caller = ANYONE
        self.record = RequestRecord(Stopwatch(self._extensions.get(BEGAN, {}).get("time")))
        self.record.note_path(self.path)
        self.describe_error: Callable[[BaseException], dict[str, Any]] = error_body
        """Returns the body that answers with an error, in the words of the API that was called."""
        self.body_bytes = 0
        """Bytes of the body, once it is read."""
        self.started = False
        self._body_left = True
        """Whether the client may still be sending."""
        self._last_write = time.monotonic()

    def header(self, name: str) -> str | None:
        return self._request_headers.get(name)

    def take_terms(self, headers: Mapping[str, str]) -> None:
        """Takes headers of an earlier request in place of these: the client asks for the rest of its answer."""
        self._request_headers |= headers

    async def read_body(self) -> bytes:
        """Reads the whole body, and unpacks one that is compressed. Raises PayloadTooLarge, before reading where the
        client declares the size, InvalidRequest at the first part that nests too deep, UnsupportedMediaType,
        UploadTimeout, and Overloaded when too much is arriving from others."""
        limit = self._settings.max_body_bytes
        self._check_declared(limit)
        coding = self._coding()
        own = client_timeout(self.header(TIMEOUT_HEADER))
        seconds = self._settings.body_seconds if own is None else min(own, self._settings.body_seconds)
        try:
            async with asyncio.timeout(seconds):
                with Upload(self._uploads) as upload:
                    body = await self._collect(limit, upload.arrive, coding)
                    self.record.stopwatch.lap(RECEIVE)
                    self.body_bytes = len(body)
                    return body
        except TimeoutError:
            raise UploadTimeout(f"the body did not arrive within {seconds:g} s", stage="upload") from None

    async def read_parts(self, limit: int, seconds: float) -> AsyncIterator[bytes]:
        """Yields a large body as it arrives, so that it need not be held whole. The reader sets the pace. Raises
        PayloadTooLarge above `limit` bytes, UploadTimeout for one that takes longer than `seconds`, or stops for as
        long as a whole small body may take, and RequestCancelled."""
        self._check_declared(limit)
        if self._coding():
            raise UnsupportedMediaType("a file must be sent without a content-encoding", param="content-encoding")
        deadline, size = Deadline.after(seconds), 0
        while self._body_left:
            wait = min(deadline.remaining, self._settings.body_seconds)
            try:
                async with asyncio.timeout(wait):
                    part = await self._receive_part()
            except TimeoutError:
                raise UploadTimeout("the body did not arrive in time: send it again", stage="upload") from None
            size += len(part)
            if size > limit:
                raise PayloadTooLarge(f"the body is larger than {limit} bytes")
            yield part
        self.record.stopwatch.lap(RECEIVE)

    def _check_declared(self, limit: int) -> None:
        declared = self._request_headers.get("content-length", "")
        if declared.isdigit() and int(declared) > limit:
            raise PayloadTooLarge(f"the body has {declared} bytes; the limit is {limit}")

    def _coding(self) -> str:
        """Returns the coding of the body. Raises UnsupportedMediaType."""
        try:
            return check_coding(self.header("content-encoding"))
        except UnsupportedMediaType:
            self.headers["accept-encoding"] = ACCEPTED
            raise

    async def _collect(self, limit: int, arrive: Callable[[int], None], coding: str) -> bytes:
        body = CountedBody(limit, self._settings.max_body_elements)
        compressed = bytearray()
        while self._body_left:
            part = await self._receive_part()
            arrive(len(part))
            if not coding:
                await body.add(part)
                continue
            compressed += part
            if len(compressed) > limit:
                raise PayloadTooLarge(f"the body is larger than {limit} bytes")
        for piece in decoded(bytes(compressed), coding) if compressed else ():
            arrive(len(piece))
            await body.add(piece)
        return body.whole()

    async def _receive_part(self) -> bytes:
        message = await self._receive()
        if message["type"] == "http.disconnect":
            raise RequestCancelled("the client left before its request was complete")
        self._body_left = message.get("more_body", False)
        part: bytes = message.get("body", b"")
        return part

    @contextlib.asynccontextmanager
    async def limit(self, deadline: Deadline) -> AsyncIterator[None]:
        """Cancels the block and raises RequestCancelled when the client disconnects, or DeadlineExceeded when the block
        outlasts its limit because the client does not read or a stage overlooks its deadline."""
        limit = asyncio.timeout(deadline.remaining + PARTING_SECONDS)
        watcher = asyncio.create_task(self._expire_when_client_leaves(limit))
        try:
            async with limit:
                yield
        except Exception:
            if not limit.expired():
                raise
            if watcher.done():
                raise RequestCancelled("the client left") from None
            self._abort_if_started()
            raise DeadlineExceeded("the deadline passed while the response was written", stage="deliver") from None
        finally:
            watcher.cancel()
            with contextlib.suppress(asyncio.CancelledError, Exception):
                await watcher

    def _abort_if_started(self) -> None:
        """Cuts the connection if the response has started, dropping unread output. The client cannot be notified in any
        other way."""
        if self.started and ABORT in self._extensions:
            self._extensions[ABORT]["call"]()

    async def refuse(self, status: int, content: Any) -> None:
        """Sends a JSON response at once, also to a client that is still sending its body."""
        if not self._body_left or self._request_headers.keys().isdisjoint({"content-length", "transfer-encoding"}):
            await self.send_json(status, content)
            return
        body = _encode(content)
        headers = {"content-type": "application/json", "content-length": str(len(body)), "connection": "close"}
        await self._start(status, headers)
        await self._send({"type": "http.response.body", "body": body, "more_body": True})
        with contextlib.suppress(TimeoutError, RequestCancelled):
            async with asyncio.timeout(DROP_SECONDS):
                await self._drop_body()
        await self._send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _drop_body(self) -> None:
        dropped = 0
        while self._body_left and dropped < DROP_BYTES:
            dropped += len(await self._receive_part())

    async def send_json(self, status: int, content: Any) -> None:
        await self.send_bytes(status, _encode(content), "application/json")

    async def send_bytes(self, status: int, body: bytes, content_type: str) -> None:
        self.record.stopwatch.lap(SERIALIZE)
        await self._start(status, {"content-type": content_type, "content-length": str(len(body))})
        await self._send({"type": "http.response.body", "body": body})
        self.record.note_flush()

    async def send_parts(self, parts: AsyncIterator[bytes], byte_count: int, content_type: str) -> None:
        """Sends a large response in parts, each when the client has room for it."""
        await self._start(200, {"content-type": content_type, "content-length": str(byte_count)})
        async for part in parts:
            await self._send({"type": "http.response.body", "body": part, "more_body": True})
        await self._send({"type": "http.response.body", "body": b"", "more_body": False})
        self.record.note_flush()

    async def send_not_modified(self) -> None:
        """Says that what the client has kept is current (RFC 9110, 15.4.5). There is no body, nor the length of one."""
        await self._start(304, {})
        await self._send({"type": "http.response.body", "body": b""})

    async def send_event(self, event: Event) -> None:
        """Writes one event, whole. The first starts the response."""
        self.record.stopwatch.lap(SERIALIZE)
        await self._write_event(event, more=True)
        self.record.note_flush()

    async def end_events(self, last: Event) -> None:
        """Writes the last event and the end of the response, together."""
        self.record.stopwatch.lap(SERIALIZE)
        await self._write_event(last, more=False)
        self.record.note_flush()

    async def keep_alive(self, interval: float) -> None:
        """Writes a comment after every `interval` seconds without output, until cancelled."""
        while True:
            await asyncio.sleep(max(0.0, self._last_write + interval - time.monotonic()))
            if time.monotonic() - self._last_write >= interval:
                await self._write_event(PING, more=True)

    async def _write_event(self, event: Event, more: bool) -> None:
        if not self.started:
            await self._start(200, _EVENT_HEADERS)
        self._last_write = time.monotonic()
        await self._send({"type": "http.response.body", "body": event, "more_body": more})

    async def _start(self, status: int, headers: dict[str, str]) -> None:
        self.started, self.record.status = True, status
        whole = headers | timing_headers(self.record) | self.headers
        encoded = [(key.encode("latin-1"), value.encode("latin-1")) for key, value in whole.items()]
        message: Message = {"type": "http.response.start", "status": status, "headers": encoded}
        await self._send(message)

    async def _expire_when_client_leaves(self, limit: asyncio.Timeout) -> None:
        while (await self._receive())["type"] != "http.disconnect":
            pass
        with contextlib.suppress(RuntimeError):  # raised where the block has ended meanwhile
            limit.reschedule(0)


Handler = Callable[[HttpExchange], Awaitable[None]]
