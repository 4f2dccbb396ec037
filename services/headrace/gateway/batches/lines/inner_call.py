"""A request that the platform makes of itself, for a caller whom it has checked: no socket, no secret."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass

from starlette.types import ASGIApp, Message, Scope

from headrace.gateway.access.caller import Caller
from headrace.gateway.http.exchange import CALLER


@dataclass(frozen=True, slots=True)
class InnerAnswer:
    """Answer to a request, whole."""

    status: int
    headers: Mapping[str, str]
    body: bytes


async def call_inside(app: ASGIApp, path: str, body: bytes, caller: Caller, headers: Mapping[str, str]) -> InnerAnswer:
    """Posts a JSON body to an application and returns the answer. Scopes, models, limits and filters hold as if the
    caller had sent it over HTTP. Cancelling ends the request."""
    exchange = _Exchange(body)
    await app(_scope(path, body, caller, headers), exchange.receive, exchange.send)
    return InnerAnswer(exchange.status, exchange.headers, b"".join(exchange.parts))


class _Exchange:
    """A client that has sent everything, and stays until it has its answer."""

    def __init__(self, body: bytes) -> None:
        self._body: bytes | None = body
        self.status = 0
        self.headers: dict[str, str] = {}
        self.parts: list[bytes] = []

    async def receive(self) -> Message:
        if self._body is None:
            await asyncio.Event().wait()
        body, self._body = self._body, None
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            self.headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in message["headers"]}
        else:
            self.parts.append(message.get("body", b""))


def _scope(path: str, body: bytes, caller: Caller, headers: Mapping[str, str]) -> Scope:
    own = {"content-type": "application/json", "content-length": str(len(body)), **headers}
    return {
        "type": "http",
        "http_version": "1.1",
        "method": "POST",
        "scheme": "http",
        "path": path,
        "query_string": b"",
        "headers": [(name.encode("latin-1"), value.encode("latin-1")) for name, value in own.items()],
        "extensions": {CALLER: {"caller": caller}},
    }
