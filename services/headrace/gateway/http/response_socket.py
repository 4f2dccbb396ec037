"""The Responses API over WebSocket (RFC 6455): each message is a request, each event of its answer a message."""

import asyncio
import contextlib
from typing import Any

import msgspec
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from headrace.errors import HeadraceError, NotFound
from headrace.errors.table import row_of
from headrace.gateway.config import GatewaySettings
from headrace.gateway.http.browser_guard import BrowserGuard
from headrace.gateway.http.error_body import error_body
from headrace.gateway.http.exchange import HttpExchange
from headrace.gateway.http.upload_budget import UploadBudget

PATH = "/v1/responses"
WAITING_MESSAGES = 4
"""Messages that may wait while a response runs; a client that sends more waits."""
_CREATE, _CANCEL = "response.create", "response.cancel"
_DATA = b"data: "


class ResponseSocket:
    """An ASGI application around another, to which the requests go as if each had come over HTTP: keys, limits and
    records are the same."""

    def __init__(self, app: ASGIApp, settings: GatewaySettings) -> None:
        self._app = app
        self._settings = settings
        self._guard = BrowserGuard(settings)
        self._uploads = UploadBudget(settings.max_upload_bytes)

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
            await self._serve(scope, receive, send)

    def _admit(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Raises NotFound for another path, and Forbidden for pages and hosts that are not allowed."""
        if scope["path"] != PATH:
            raise NotFound(f"there is a WebSocket at {PATH} only, not at {scope['path']}")
        self._guard.admit("GET", HttpExchange(scope, receive, send, self._settings, self._uploads))

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "websocket.accept"})
        messages: asyncio.Queue[str | None] = asyncio.Queue(WAITING_MESSAGES)
        reading = asyncio.create_task(_read(receive, messages))
        try:
            while (text := await messages.get()) is not None:
                request = _request(text)
                if request is None:
                    await _tell(send, f"a message must be a JSON object of the type {_CREATE}")
                elif not await self._answer(scope, request, messages, send):
                    return
        finally:
            reading.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await reading

    async def _answer(
        self, scope: Scope, request: dict[str, Any], messages: "asyncio.Queue[str | None]", send: Send
    ) -> bool:
        """Answers one request. Returns whether the client is still there."""
        exchange = _Exchange(request, send)
        running = asyncio.ensure_future(self._app(_http(scope), exchange.receive, exchange.send))
        try:
            while not running.done():
                waiting = asyncio.create_task(messages.get())
                await asyncio.wait({running, waiting}, return_when=asyncio.FIRST_COMPLETED)
                if not waiting.done():
                    waiting.cancel()
                    break
                text = waiting.result()
                if text is None or _type(text) == _CANCEL:
                    exchange.leave()
                    await running
                    return text is not None
                await _tell(send, "a response is running: wait for its end, or send response.cancel")
            await running
            return True
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)


class _Exchange:
    """One request and its answer, as an HTTP application sees them."""

    def __init__(self, request: dict[str, Any], send: Send) -> None:
        self._body: bytes | None = msgspec.json.encode(request)
        self._send = send
        self._left = asyncio.Event()
        self._is_stream = False
        self._status = 0
        self._held = b""

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
        if self._is_stream:
            *events, self._held = self._held.split(b"\n\n")
            for event in events:
                await self._send_event(event)
        elif not message.get("more_body", False):
            content = msgspec.json.decode(self._held or b"{}")
            await self._send_text(msgspec.json.encode({"type": "error", "status": self._status, **content}))

    async def _send_event(self, event: bytes) -> None:
        for line in event.split(b"\n"):
            if line.startswith(_DATA):
                await self._send_text(line[len(_DATA) :])

    async def _send_text(self, text: bytes) -> None:
        await self._send({"type": "websocket.send", "text": text.decode()})


async def _refuse(error: HeadraceError, send: Send) -> None:
    """Answers a handshake with an error instead."""
    body = msgspec.json.encode(error_body(error))
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    status = row_of(error).http_status
    await send({"type": "websocket.http.response.start", "status": status, "headers": headers})
    await send({"type": "websocket.http.response.body", "body": body})


async def _read(receive: Receive, messages: "asyncio.Queue[str | None]") -> None:
    """Hands on the texts of a client, and None when it has left."""
    while True:
        message = await receive()
        if message["type"] == "websocket.receive":
            await messages.put(message.get("text") or "")
        elif message["type"] == "websocket.disconnect":
            await messages.put(None)
            return


def _request(text: str) -> dict[str, Any] | None:
    """Returns the body that a message stands for, always of a stream."""
    try:
        content = msgspec.json.decode(text)
    except msgspec.DecodeError:
        return None
    if not isinstance(content, dict) or content.pop("type", None) != _CREATE:
        return None
    # Clients may also wrap the body, as OpenAI's realtime messages do.
    wrapped = content.get("response")
    return {**(wrapped if isinstance(wrapped, dict) else content), "stream": True}


def _type(text: str) -> str:
    try:
        content = msgspec.json.decode(text)
    except msgspec.DecodeError:
        return ""
    return str(content.get("type")) if isinstance(content, dict) else ""


def _http(scope: Scope) -> Scope:
    """Returns the scope of a POST by the same client, with the headers of its handshake."""
    dropped = {b"connection", b"upgrade", b"content-length", b"content-type"}
    headers = [(name, value) for name, value in scope["headers"] if name not in dropped]
    return {
        **{key: scope[key] for key in ("asgi", "client", "server", "root_path", "path", "raw_path", "query_string")},
        "type": "http",
        "http_version": "1.1",
        "method": "POST",
        "scheme": "http",
        "headers": [*headers, (b"content-type", b"application/json")],
    }


async def _tell(send: Send, text: str) -> None:
    error = {"message": text, "type": "invalid_request_error", "param": None, "code": "invalid_value"}
    await send({"type": "websocket.send", "text": msgspec.json.encode({"type": "error", "error": error}).decode()})
