"""WebSockets have the bounds of HTTP: the key first, bytes and elements that are counted, and an end to every wait."""

import asyncio
import contextlib
import json
import os
import socket
import struct
import time
from collections.abc import AsyncIterator, Mapping
from typing import Any

import msgspec
import psutil
import pytest
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidStatus

from headrace.access.key_record import KeyRecord
from headrace.domain.deadline import Deadline
from headrace.errors import Unauthenticated
from headrace.gateway.access.caller import Caller, tenant_of
from headrace.gateway.access.gate import Gate
from headrace.gateway.config import GatewaySettings
from headrace.gateway.http.bodies.upload_budget import UploadBudget
from headrace.gateway.http.error_body import error_body
from headrace.gateway.http.exchange import Handler, HttpExchange, data_event
from headrace.gateway.http.server import HttpServer
from headrace.gateway.routes import Routes

pytestmark = pytest.mark.anyio
CREATE = {"type": "response.create", "model": "m"}
WAIT = 20.0
MEBIBYTE = 2**20


class Answers:
    """Stands for the route of responses: says what has come, or goes on until the client leaves."""

    describe_error = staticmethod(error_body)
    scopes = frozenset({"generate"})

    def __init__(self) -> None:
        self.read_count = 0

    def handlers(self) -> Mapping[str, Mapping[str, Handler]]:
        return {"/v1/responses": {"POST": self.answer}}

    async def answer(self, exchange: HttpExchange) -> None:
        content = msgspec.json.decode(await exchange.read_body())
        self.read_count += 1
        async with exchange.limit(Deadline.after(content.get("seconds", WAIT))):
            while content.get("endless"):
                await exchange.send_event(data_event({"type": "more", "text": "x" * 1000}))
                await asyncio.sleep(0)
        await exchange.end_events(data_event({"type": "response.completed", "seen": sorted(content)}))


class OneKey(Gate):
    """Admits the key `right`, which may generate, and `other`, which may not."""

    def caller(self, authorization: str | None, api_key: str | None) -> Caller:
        scopes = {"Bearer right": {"generate"}, "Bearer other": {"embed"}}.get(authorization or "")
        if scopes is None:
            raise Unauthenticated("an API key is needed")
        key = KeyRecord(id="abcdefgh", name="k", tenant="t", scopes=tuple(scopes), digest="0" * 64, created=0)
        return Caller(tenant_of(key), key)


class Served:
    """A bridge with one route."""

    def __init__(self, http: HttpServer, uploads: UploadBudget, answers: Answers) -> None:
        self.http, self.uploads, self.answers = http, uploads, answers
        self.address = f"ws://{http.address}/v1/responses"

    def connect(self, key: str = "right", **options: Any) -> connect:
        headers = {"authorization": f"Bearer {key}"} if key else {}
        return connect(self.address, additional_headers=headers, max_size=None, proxy=None, **options)

    @contextlib.asynccontextmanager
    async def connect_raw(self) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
        """Yields a connection after its handshake, on which a test writes frames of its own."""
        host, _, port = self.http.address.rpartition(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        lines = [
            "GET /v1/responses HTTP/1.1",
            "host: localhost",
            "upgrade: websocket",
            "connection: upgrade",
            "sec-websocket-version: 13",
            "sec-websocket-key: AAAAAAAAAAAAAAAAAAAAAA==",
            "authorization: Bearer right",
        ]
        writer.write("\r\n".join([*lines, "", ""]).encode())
        assert b"101" in await reader.readuntil(b"\r\n\r\n")
        try:
            yield reader, writer
        finally:
            writer.transport.abort()


@contextlib.asynccontextmanager
async def serving(**settings: Any) -> AsyncIterator[Served]:
    made = GatewaySettings.model_validate({"http_address": "127.0.0.1:0", **settings})
    answers, uploads, gate = Answers(), UploadBudget(made.max_upload_bytes), OneKey()
    http = HttpServer(Routes(made, [answers], gate, uploads=uploads), made, gate, uploads)
    await http.start()
    try:
        yield Served(http, uploads, answers)
    finally:
        await http.stop(Deadline.after(0.2))


async def told(client: ClientConnection) -> dict[str, Any]:
    async with asyncio.timeout(WAIT):
        return dict(json.loads(await client.recv()))


async def until_closed(client: ClientConnection) -> tuple[int, str]:
    async with asyncio.timeout(WAIT):
        with contextlib.suppress(ConnectionClosed):
            while True:
                await client.recv()
    return client.close_code or 0, client.close_reason or ""


def frame(payload: bytes, opcode: int = 1, *, final: bool = True) -> bytes:
    """A frame of a client, masked with zeros."""
    size = len(payload)
    if size < 126:
        length = bytes([128 | size])
    else:
        length = b"\xfe" + struct.pack("!H", size) if size < 2**16 else b"\xff" + struct.pack("!Q", size)
    return bytes([opcode | (128 if final else 0)]) + length + bytes(4) + payload


async def test_a_request_is_answered_and_the_next_one_too() -> None:
    async with serving() as served, served.connect() as client:
        for content in (CREATE, {"type": "response.create", "response": {"model": "m", "stream": False}}, CREATE):
            await client.send(json.dumps(content))
            answer = await told(client)
            assert answer.get("seen") == ["model", "stream", *(["type"] if "model" in content else [])], answer


@pytest.mark.parametrize(("key", "status"), [("", 401), ("wrong", 401), ("other", 403)])
async def test_the_key_is_asked_for_before_anything_is_read(key: str, status: int) -> None:
    async with serving() as served:
        with pytest.raises(InvalidStatus) as refused:
            async with served.connect(key):
                pass
        assert refused.value.response.status_code == status
        assert "error" in json.loads(refused.value.response.body or b"{}")
        assert served.answers.read_count == 0


@pytest.mark.parametrize(
    ("message", "says"),
    [
        ("nonsense", "JSON"),
        ("[" * 1_000_000, "response.create"),
        ('{"type":"response.create","a":' + "[" * 100_000, "response.create"),
        ('{"type":"response.create","a":' + "[" * 200 + "]" * 200 + "}", "levels deep"),
        (json.dumps({"type": "session.update"}), "session.update"),
        (json.dumps({"type": 3}), "type"),
        (json.dumps(CREATE | {"x": [{}] * 100_000}), "objects and lists"),
        (json.dumps(CREATE | {"x": [1] * 600_000}), "elements"),
        (b"\x00\xff", "response.create"),
    ],
)
async def test_a_bad_message_is_told_and_the_socket_goes_on(message: str | bytes, says: str) -> None:
    async with serving() as served, served.connect() as client:
        await client.send(message)
        answer = await told(client)
        assert (answer["type"], says in answer["error"]["message"]) == ("error", True), answer
        await client.send(json.dumps(CREATE))
        assert (await told(client))["type"] == "response.completed"


async def test_text_that_is_not_unicode_ends_the_connection_in_order(caplog: pytest.LogCaptureFixture) -> None:
    async with serving() as served, served.connect() as client:
        await client.send(b"\xff\xfe", text=True)
        assert (await until_closed(client))[0] == 1007
    assert "Traceback" not in caplog.text


async def test_a_message_larger_than_a_body_may_be_is_refused() -> None:
    async with serving(max_body_bytes=100_000) as served, served.connect() as client:
        await client.send("x" * 200_000)
        assert (await until_closed(client))[0] == 1009


async def test_messages_that_arrive_count_as_bodies_do() -> None:
    async with serving(max_upload_bytes=300_000) as served, served.connect_raw() as (_, writer):
        writer.write(frame(b"x" * 250_000)[:-10])
        while served.uploads.byte_count < 200_000:  # noqa: ASYNC110 - it has no event
            await asyncio.sleep(0.01)
        async with served.connect() as client:
            await client.send("x" * 250_000)
            code, reason = await until_closed(client)
            assert (code, "arriving already" in reason) == (1013, True)
        async with served.connect() as client:
            await client.send(json.dumps(CREATE))
            assert (await told(client))["type"] == "response.completed"
    assert served.uploads.byte_count == 0


async def test_a_message_that_does_not_go_on_ends_the_connection() -> None:
    async with serving(body_seconds=0.2) as served, served.connect_raw() as (reader, writer):
        writer.write(frame(b"{", final=False))
        async with asyncio.timeout(WAIT):
            assert b"did not arrive" in await reader.read()


async def test_a_connection_without_requests_ends() -> None:
    async with serving(idle_seconds=0.2) as served, served.connect() as client:
        assert (await until_closed(client))[0] == 1001


async def test_pings_between_requests_are_no_late_message() -> None:
    async with serving(body_seconds=0.1) as served, served.connect() as client:
        await (await client.ping())
        await asyncio.sleep(0.3)
        await client.send(json.dumps(CREATE))
        assert (await told(client))["type"] == "response.completed"


async def test_a_message_of_too_many_frames_is_refused() -> None:
    async with serving() as served, served.connect_raw() as (reader, writer):
        writer.write(frame(b"{", final=False) + frame(b"", 0, final=False) * 20_000)
        async with asyncio.timeout(WAIT):
            assert b"frames" in await reader.read()


@pytest.mark.parametrize("opcode", [9, 10, 0, 1])
async def test_a_flood_of_small_frames_stops_nobody_else(opcode: int) -> None:
    async with serving() as served, served.connect_raw() as (_, writer):
        flood = frame(b"{", final=False) * (opcode == 0) + frame(b"", opcode, final=opcode != 0) * 100_000
        writer.write(flood)
        longest, began = 0.0, time.monotonic()
        while time.monotonic() < began + 1.0:
            before = time.monotonic()
            await asyncio.sleep(0)
            longest = max(longest, time.monotonic() - before)
        assert longest < 0.25


async def test_pongs_that_are_not_read_are_not_kept() -> None:
    before = psutil.Process().memory_info().rss
    async with serving() as served, served.connect_raw() as (_, writer):
        sock: socket.socket = writer.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        writer.write(frame(os.urandom(125), 9) * 400_000)
        await asyncio.sleep(1.0)
        # The test's own buffer of what it could not send is in the same process.
        assert psutil.Process().memory_info().rss - before < 200 * MEBIBYTE


async def test_an_answer_that_is_not_read_ends_at_its_deadline() -> None:
    async with serving() as served, served.connect_raw() as (_, writer):
        writer.write(frame(json.dumps(CREATE | {"endless": True, "seconds": 0.2}).encode()))
        # This side reads no further than its buffer, and the other is left with what it cannot send.
        async with asyncio.timeout(WAIT):
            while served.answers.read_count == 0 or served.http._server.server_state.connections:  # noqa: ASYNC110
                await asyncio.sleep(0.02)


async def test_a_running_response_is_cancelled_and_the_socket_goes_on() -> None:
    async with serving() as served, served.connect() as client:
        await client.send(json.dumps(CREATE | {"endless": True}))
        await told(client)
        await client.send(json.dumps(CREATE))
        while (answer := await told(client))["type"] == "more":
            pass
        assert "is running" in answer["error"]["message"]
        await client.send(json.dumps({"type": "response.cancel"}))
        await client.send(json.dumps(CREATE))
        while (answer := await told(client))["type"] == "more":
            pass
        assert answer["type"] == "response.completed"


async def test_many_large_messages_take_little_memory() -> None:
    message = json.dumps(CREATE | {"x": [{}] * 2_700_000})
    async with serving() as served:
        clients = [await served.connect().__aenter__() for _ in range(8)]
        before = psutil.Process().memory_info().rss
        sending = [asyncio.create_task(client.send(message)) for client in clients]
        peak = 0
        answers = [asyncio.create_task(until_closed(client)) for client in clients]
        for _ in range(100):
            await asyncio.sleep(0.02)
            peak = max(peak, psutil.Process().memory_info().rss - before)
        for task in [*sending, *answers]:
            task.cancel()
        await asyncio.gather(*sending, *answers, return_exceptions=True)
        for client in clients:
            client.transport.abort()
    # The clients hold each message twice themselves: 8 MiB as text and as bytes.
    assert peak < (8 * 2 * 8 + 150) * MEBIBYTE
