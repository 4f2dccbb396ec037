"""Clients that take more than their share of connections, heads and uploads: others are served meanwhile."""

import asyncio
import contextlib
import resource
import time

import pytest
from tests.services.gateway.served_bridge import PATIENCE, Gateway, answer, body_of, outcomes, serving, until

from headrace.gateway.http import server as http_server
from headrace.gateway.http.connection import MAX_FAREWELLS, MAX_HEADERS

pytestmark = pytest.mark.anyio


async def closed(reader: asyncio.StreamReader) -> None:
    """Returns when the gateway has closed the connection."""
    with contextlib.suppress(ConnectionError):
        async with asyncio.timeout(PATIENCE):
            await reader.read()


async def drip(gateway: Gateway, text: bytes) -> float:
    """Sends a byte every 20 ms, over and over. Returns the seconds until the gateway ended it."""
    reader, writer = await gateway.connect()
    began = time.monotonic()
    ended = asyncio.create_task(closed(reader))
    with contextlib.suppress(ConnectionError):
        while not ended.done():
            for byte in text:
                writer.write(bytes([byte]))
                await asyncio.wait({ended}, timeout=0.02)
                if ended.done() or time.monotonic() - began > PATIENCE:
                    break
    await ended
    writer.close()
    return time.monotonic() - began


@pytest.mark.parametrize(
    "text", [b"POST /v1/completions HTTP/1.1\r\nhost: localhost\r\nx: " + b"y" * 100_000, b"\r\n", b"\n"]
)
async def test_a_head_that_drips_ends_in_time_while_others_are_served(text: bytes) -> None:
    async with serving(header_seconds=0.5) as gateway:
        dripping = [asyncio.create_task(drip(gateway, text)) for _ in range(20)]
        while not all(task.done() for task in dripping):
            status, _ = await gateway.post(body_of())
            assert status == 200
        assert max([task.result() for task in dripping]) < 5


@pytest.mark.parametrize(
    "text", [b"GET /health HTTP/1.1\r\nx: yyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyy", b"\r\n"]
)
async def test_the_second_head_of_a_connection_has_as_long_as_the_first(text: bytes) -> None:
    async with serving(header_seconds=0.5) as gateway:
        reader, writer = await gateway.connect()
        writer.write(b"GET /health HTTP/1.1\r\nhost: localhost\r\n\r\n")
        status, _ = await answer(reader)
        assert status == 200
        began = time.monotonic()
        ended = asyncio.create_task(closed(reader))
        with contextlib.suppress(ConnectionError):
            while not ended.done() and time.monotonic() - began < PATIENCE:
                writer.write(text[:1])
                text = text[1:] + text[:1]
                await asyncio.wait({ended}, timeout=0.02)
        await ended
        assert time.monotonic() - began < 5
        writer.close()


async def test_an_idle_connection_is_closed() -> None:
    async with serving(idle_seconds=0.2) as gateway:
        reader, writer = await gateway.connect()
        writer.write(b"GET /health HTTP/1.1\r\nhost: localhost\r\n\r\n")
        status, _ = await answer(reader)
        assert status == 200
        async with asyncio.timeout(PATIENCE):
            assert await reader.read() == b""
        writer.close()


async def test_a_head_with_too_many_headers_is_refused() -> None:
    async with serving() as gateway:
        for count, expected in ((MAX_HEADERS - 1, 200), (MAX_HEADERS, 400), (2000, 400)):
            reader, writer = await gateway.connect()
            lines = b"".join(b"h%d: x\r\n" % number for number in range(count))
            writer.write(b"GET /health HTTP/1.1\r\nhost: localhost\r\n" + lines + b"\r\n")
            status, content = await answer(reader)
            assert status == expected
            if expected == 400:
                assert f"more than {MAX_HEADERS} headers" in content["message"]
            writer.close()


async def test_connections_beyond_the_bound_are_told_to_come_back() -> None:
    async with serving(max_connections=8) as gateway:
        before = outcomes("overloaded")
        first = [await gateway.connect() for _ in range(8)]
        await until(lambda: gateway.connection_count == 8)
        reader, writer = await gateway.connect()
        writer.write(b"GET /health HTTP/1.1\r\nhost: localhost\r\n\r\n")
        async with asyncio.timeout(PATIENCE):
            response = await reader.read()
        assert response.startswith(b"HTTP/1.1 503 ")
        assert b"\r\nretry-after: 1\r\n" in response
        assert b"8 connections are open already" in response
        assert outcomes("overloaded") == before + 1
        writer.close()
        await until(lambda: gateway.connection_count == 8)
        first[0][1].write(b"GET /health HTTP/1.1\r\nhost: localhost\r\n\r\n")
        assert (await answer(first[0][0]))[0] == 200
        first[0][1].close()
        await until(lambda: gateway.connection_count == 7)
        status, _ = await gateway.post(body_of())
        assert status == 200
        for _, open_writer in first[1:]:
            open_writer.close()


async def test_a_crowd_beyond_the_bound_does_not_stay() -> None:
    async with serving(max_connections=2) as gateway:
        crowd = [await gateway.connect() for _ in range(MAX_FAREWELLS * 2)]
        await until(lambda: gateway.connection_count <= 2)
        for _, writer in crowd:
            writer.close()


async def test_the_bound_is_what_the_operating_system_allows(monkeypatch: pytest.MonkeyPatch) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        monkeypatch.setattr(http_server, "OTHER_FILES", soft - 2)
        assert http_server._connection_bound(2) == 2
        assert resource.getrlimit(resource.RLIMIT_NOFILE) == (soft, hard)
        monkeypatch.setattr(http_server, "OTHER_FILES", hard - 1)
        assert http_server._connection_bound(2) == 1
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


async def test_uploads_share_one_bound_and_short_bodies_do_not_count() -> None:
    async with serving(max_upload_bytes=200_000, body_seconds=30) as gateway:
        head = b"POST /v1/completions HTTP/1.1\r\nhost: localhost\r\ncontent-length: 190000\r\n\r\n"
        reader, writer = await gateway.connect()
        writer.write(head + b"{" + b" " * 180_000)
        await writer.drain()
        status = 200
        async with asyncio.timeout(PATIENCE):
            while status == 200:
                status, error = await gateway.post(body_of(prompt="a" * 150_000))
        assert (status, error["code"]) == (503, "overloaded")
        assert (await gateway.post(body_of(prompt="a" * 1000)))[0] == 200
        writer.write(b" " * 9_998 + b"}")
        assert (await answer(reader))[0] == 400
        writer.close()
        assert (await gateway.post(body_of(prompt="a" * 150_000)))[0] == 200


async def test_a_connection_accepted_just_before_the_end_is_served() -> None:
    async with serving() as gateway:
        reader, writer = await gateway.connect()
        silent, other = await gateway.connect()
        await until(lambda: gateway.connection_count == 2)
        stopping = asyncio.create_task(gateway.stop())
        await until(lambda: gateway.parting_count == 2)
        body = body_of()
        head = f"POST /v1/completions HTTP/1.1\r\nhost: localhost\r\ncontent-length: {len(body)}\r\n\r\n"
        writer.write(head.encode() + body)
        content = await gateway.read_all(reader)
        assert content.startswith(b"HTTP/1.1 200")
        assert b"connection: close" in content.lower()
        assert await gateway.read_all(silent) == b""
        await asyncio.wait_for(stopping, PATIENCE)
        writer.close()
        other.close()
