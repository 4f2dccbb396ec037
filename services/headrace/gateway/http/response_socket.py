"""The Responses API over WebSocket (RFC 6455): each message is a request, each event of its answer a message."""

import asyncio
import contextlib
from collections.abc import Callable
from typing import Any

import msgspec
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.utils import ClientDisconnected

from headrace.errors import HeadraceError, InvalidRequest, NotFound, RequestCancelled
from headrace.errors.table import row_of
from headrace.gateway.access.gate import Gate
from headrace.gateway.config import GatewaySettings
from headrace.gateway.http.bodies.upload_budget import UploadBudget
from headrace.gateway.http.browser_guard import BrowserGuard
from headrace.gateway.http.connection import ABORT
from headrace.gateway.http.error_body import error_body, error_headers
from headrace.gateway.http.exchange import HttpExchange
from headrace.gateway.http.socket_connection import ARRIVING

PATH = "/v1/responses"
SCOPE = "generate"
"""Scope that a key needs."""
GOING_AWAY = 1001
"""Code with which an idle connection is closed."""
_CREATE, _CANCEL = "response.create", "response.cancel"
_DATA = b"data: "


class ResponseSocket:
    """An ASGI application around another, to which the requests go as if each had come over HTTP: keys, limits and
    records are the same."""

    def __init__(self, app: ASGIApp, settings: GatewaySettings, gate: Gate, uploads: UploadBudget) -> None:
        self._app = app
        self._settings = settings
        self._gate = gate
        self._guard = BrowserGuard(settings)
        self._uploads = uploads

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "websocket":
            await self._app(scope, receive, send)
            return
        await receive()
        try:
            self._admit(scope, receive, send)
        except HeadraceError as error:
            await _refuse(error, send)
        else:
            await send({"type": "websocket.accept"})
            client = _Client(scope, receive, send)
            try:
                with contextlib.suppress(RequestCancelled):
                    await self._serve(scope, client)
            finally:
                await client.close()

    def _admit(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Raises NotFound for another path, Unauthenticated and Forbidden for clients that may not ask, and Forbidden
        for pages and hosts that are not allowed."""
        if scope["path"] != PATH:
            raise NotFound(f"there is a WebSocket at {PATH} only, not at {scope['path']}")
        exchange = HttpExchange(scope, receive, send, self._settings, self._uploads)
        self._guard.admit("GET", exchange)
        caller = self._gate.caller(exchange.header("authorization"), exchange.header("x-api-key"))
        caller.check_scope({SCOPE})

    async def _serve(self, scope: Scope, client: "_Client") -> None:
        """Answers one message after another until the client leaves, or says nothing for too long."""
        while (text := await client.next_message(self._settings.idle_seconds)) is not None:
            try:
                body = _body(text)
            except InvalidRequest as error:
                await client.tell(error)
                continue
            del text
            if not await self._answer(scope, body, client):
                return

    async def _answer(self, scope: Scope, body: bytes, client: "_Client") -> bool:
        """Answers one request. Returns whether the client is still there."""
        exchange = _Exchange(body, client.send)
        del body
        running = asyncio.ensure_future(self._app(_http(scope), exchange.receive, exchange.send))
        try:
            while not running.done():
                either: set[asyncio.Future[Any]] = {running, client.waiting()}
                await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
                if not client.has_message():
                    continue
                if exchange.is_over:
                    # The client may ask again as soon as it has the last event.
                    await running
                    break
                text = await client.next_message(0)
                if text is None or _kind(text) == _CANCEL:
                    exchange.leave()
                    await running
                    return text is not None
                await client.tell(InvalidRequest("a response is running: wait for its end, or send response.cancel"))
            await running
            return True
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)


class _Client:
    """The other side of the connection."""

    def __init__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self._receive = receive
        self._send = send
        self._is_arriving: Callable[[], bool] = scope["extensions"].get(ARRIVING, {}).get("call", lambda: False)
        self._waiting: asyncio.Future[str | bytes | None] | None = None

    def waiting(self) -> "asyncio.Future[str | bytes | None]":
        """Returns what ends with the next message."""
        if self._waiting is None:
            self._waiting = asyncio.ensure_future(self._read())
        return self._waiting

    def has_message(self) -> bool:
        return self._waiting is not None and self._waiting.done()

    async def next_message(self, idle_seconds: float) -> str | bytes | None:
        """Returns the next message, or None once the client has left. One that sends nothing for `idle_seconds` is
        asked to leave."""
        waiting = self.waiting()
        while not (await asyncio.wait({waiting}, timeout=idle_seconds))[0]:
            if not self._is_arriving():
                await self._send({"type": "websocket.close", "code": GOING_AWAY, "reason": "no request for too long"})
                return None
        self._waiting = None
        return waiting.result()

    async def send(self, text: bytes) -> None:
        """Sends a message. Raises RequestCancelled once the client has left."""
        try:
            await self._send({"type": "websocket.send", "text": text.decode()})
        except ClientDisconnected:
            raise RequestCancelled("the client left") from None

    async def tell(self, error: HeadraceError) -> None:
        """Sends an error that is about a message, not about a response."""
        await self.send(
            msgspec.json.encode({"type": "error", "status": row_of(error).http_status, **error_body(error)})
        )

    async def close(self) -> None:
        """Stops waiting for messages."""
        if self._waiting is not None:
            self._waiting.cancel()
            await asyncio.gather(self._waiting, return_exceptions=True)

    async def _read(self) -> str | bytes | None:
        while True:
            message = await self._receive()
            if message["type"] == "websocket.receive":
                text, content = message.get("text"), message.get("bytes")
                return text if text is not None else content or b""
            if message["type"] == "websocket.disconnect":
                return None


class _Exchange:
    """One request and its answer, as an HTTP application sees them."""

    def __init__(self, body: bytes, send: Callable[[bytes], Any]) -> None:
        self._body: bytes | None = body
        self._send = send
        self._left = asyncio.Event()
        self._is_stream = False
        self._status = 0
        self._held = b""
        self.is_over = False
        """Whether the last of the answer is sent."""

    def leave(self) -> None:
        """Makes the application see that its client has left."""
        self._left.set()

    async def receive(self) -> Message:
        if self._body is not None:
            body, self._body = self._body, None
            return {"type": "http.request", "body": body, "more_body": False}
        await self._left.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self._status = message["status"]
            self._is_stream = any(value.startswith(b"text/event-stream") for _, value in message["headers"])
            return
        self._held += message.get("body", b"")
        self.is_over = not message.get("more_body", False)
        if self._is_stream:
            *events, self._held = self._held.split(b"\n\n")
            for event in events:
                await self._send_event(event)
        elif not message.get("more_body", False):
            content = msgspec.json.decode(self._held or b"{}")
            await self._send(msgspec.json.encode({"type": "error", "status": self._status, **content}))

    async def _send_event(self, event: bytes) -> None:
        for line in event.split(b"\n"):
            if line.startswith(_DATA):
                await self._send(line[len(_DATA) :])


class _Envelope(msgspec.Struct):
    """Fields of a message that are read before the request in it is counted and parsed, as over HTTP."""

    type: str
    response: msgspec.Raw = msgspec.Raw(b"")


class _Kind(msgspec.Struct):
    type: str = ""


def _body(text: str | bytes) -> bytes:
    """Returns the body that a message stands for, always of a stream. Raises InvalidRequest."""
    try:
        envelope = msgspec.json.decode(text, type=_Envelope)
        if envelope.type != _CREATE:
            raise msgspec.DecodeError(f"the type is {envelope.type[:80]!r}")
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidRequest(f"a message must be a JSON object of the type {_CREATE}: {error}") from None
    # Clients may also wrap the body, as OpenAI's realtime messages do.
    wrapped = bytes(envelope.response).strip()
    body = wrapped if wrapped.startswith(b"{") else (text.encode() if isinstance(text, str) else text).strip()
    # Of two fields of one name the last counts.
    comma = b"" if body[1:-1].strip() == b"" else b","
    return body[:-1] + comma + b'"stream":true}'


def _kind(text: str | bytes) -> str:
    with contextlib.suppress(msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return msgspec.json.decode(text, type=_Kind).type
    return ""


async def _refuse(error: HeadraceError, send: Send) -> None:
    """Answers a handshake with an error instead."""
    body = msgspec.json.encode(error_body(error))
    shown = {"content-type": "application/json", "content-length": str(len(body)), **error_headers(error)}
    headers = [(name.encode(), value.encode()) for name, value in shown.items()]
    await send({"type": "websocket.http.response.start", "status": row_of(error).http_status, "headers": headers})
    await send({"type": "websocket.http.response.body", "body": body})


def _http(scope: Scope) -> Scope:
    """Returns the scope of a POST by the same client, with the headers of its handshake."""
    dropped = {b"connection", b"upgrade", b"content-length", b"content-type", b"content-encoding"}
    headers = [(name, value) for name, value in scope["headers"] if name not in dropped]
    extensions = {key: value for key, value in scope["extensions"].items() if key == ABORT}
    return {
        **{key: scope[key] for key in ("asgi", "client", "server", "root_path", "path", "raw_path", "query_string")},
        "type": "http",
        "http_version": "1.1",
        "method": "POST",
        "scheme": "http",
        "headers": [*headers, (b"content-type", b"application/json")],
        "extensions": extensions,
    }
