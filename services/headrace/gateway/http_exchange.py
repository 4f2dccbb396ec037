"""One HTTP request and its response, below any framework: bounded bodies, whole events, a client that may vanish."""

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
from starlette.types import Message, Receive, Scope, Send

from headrace.errors import PayloadTooLarge, RequestCancelled

_encode = msgspec.json.Encoder().encode
Event = bytes
DONE: Event = b"data: [DONE]\n\n"
PING: Event = b": ping\n\n"


def data_event(content: Any) -> Event:
    """A server-sent event with a JSON payload."""
    return b"data: " + _encode(content) + b"\n\n"


class HttpExchange:
    """Reads the body, then writes either one JSON response or a stream of server-sent events."""

    def __init__(self, scope: Scope, receive: Receive, send: Send, max_body_bytes: int) -> None:
        self.path: str = scope["path"]
        self._receive = receive
        self._send = send
        self._max_body_bytes = max_body_bytes
        self._request_headers = {key.decode("latin-1"): value.decode("latin-1") for key, value in scope["headers"]}
        self.headers: dict[str, str] = {}
        """Headers of the response. May be added to until it starts."""
        self.started = False
        self._last_write = time.monotonic()

    def header(self, name: str) -> str | None:
        return self._request_headers.get(name)

    async def read_body(self) -> bytes:
        """The whole body. Raises PayloadTooLarge, before reading it where the client says its size."""
        declared = self._request_headers.get("content-length", "")
        if declared.isdigit() and int(declared) > self._max_body_bytes:
            raise PayloadTooLarge(f"the body has {declared} bytes; the limit is {self._max_body_bytes}")
        parts: list[bytes] = []
        size = 0
        while True:
            message = await self._receive()
            if message["type"] == "http.disconnect":
                raise RequestCancelled("the client left before its request was complete")
            parts.append(message.get("body", b""))
            size += len(parts[-1])
            if size > self._max_body_bytes:
                raise PayloadTooLarge(f"the body is larger than {self._max_body_bytes} bytes")
            if not message.get("more_body", False):
                return b"".join(parts)

    async def unless_client_leaves(self, work: Awaitable[None]) -> None:
        """Awaits `work`; cancels it and raises RequestCancelled when the client disconnects."""
        task = asyncio.ensure_future(work)
        watcher = asyncio.create_task(self._wait_for_disconnect())
        try:
            await asyncio.wait({task, watcher}, return_when=asyncio.FIRST_COMPLETED)
            if task.done():
                return task.result()
            raise RequestCancelled("the client left")
        finally:
            for pending in (task, watcher):
                pending.cancel()
                with contextlib.suppress(asyncio.CancelledError, Exception):
                    await pending

    async def send_json(self, status: int, content: Any) -> None:
        await self.send_bytes(status, _encode(content), "application/json")

    async def send_bytes(self, status: int, body: bytes, content_type: str) -> None:
        await self._start(status, {"content-type": content_type, "content-length": str(len(body))})
        await self._send({"type": "http.response.body", "body": body})

    async def send_event(self, event: Event) -> None:
        """Writes one event, whole. The first starts the response."""
        if not self.started:
            await self._start(
                200,
                {
                    "content-type": "text/event-stream; charset=utf-8",
                    "cache-control": "no-cache",
                    "x-accel-buffering": "no",
                },
            )
        self._last_write = time.monotonic()
        await self._send({"type": "http.response.body", "body": event, "more_body": True})

    async def end_events(self) -> None:
        await self._send({"type": "http.response.body", "body": b"", "more_body": False})

    async def keep_alive(self, interval: float) -> None:
        """Writes a comment whenever nothing was written for `interval` seconds, until cancelled."""
        while True:
            await asyncio.sleep(max(0.0, self._last_write + interval - time.monotonic()))
            if time.monotonic() - self._last_write >= interval:
                await self.send_event(PING)

    async def _start(self, status: int, headers: dict[str, str]) -> None:
        self.started = True
        encoded = [(key.encode("latin-1"), value.encode("latin-1")) for key, value in (headers | self.headers).items()]
        message: Message = {"type": "http.response.start", "status": status, "headers": encoded}
        await self._send(message)

    async def _wait_for_disconnect(self) -> None:
        while (await self._receive())["type"] != "http.disconnect":
            pass


Handler = Callable[[HttpExchange], Awaitable[None]]
