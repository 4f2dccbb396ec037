"""Clients that send too much, too slowly or too deeply nested bodies, or do not read, get a typed error in time and
delay no other client."""

import asyncio
import contextlib
import gc
import json
import socket
import time
from collections.abc import AsyncIterator, Callable
from typing import Any

import msgspec
import pytest
from tests.services.gateway.served_bridge import PATIENCE, Gateway, answer, body_of, outcomes, serving, until

pytestmark = pytest.mark.anyio


LOOP_SECONDS = 0.1
"""Processor time after which all other tasks must have had a turn, on a machine that does nothing else."""
LONG_LIST = json.dumps(["a"] * 400_000).encode()


def turn_seconds() -> float:
    """Returns the processor time after which all other tasks must have had a turn on this machine as it is now: three
    times that for parsing a long list where that is more. A virtual machine's page faults can make parsing slow."""
    began = time.thread_time()
    msgspec.json.decode(LONG_LIST)
    return max(LOOP_SECONDS, 3 * (time.thread_time() - began))


@contextlib.asynccontextmanager
async def watched_loop() -> AsyncIterator[Callable[[], float]]:
    """Yields what tells the most processor time that the event loop took from one turn of a client to its next. Time in
    which others had the processor does not count."""
    longest = 0.0

    async def tick() -> None:
        nonlocal longest
        while True:
            before = time.thread_time()
            await asyncio.sleep(0.001)
            longest = max(longest, time.thread_time() - before)

    # As the gateway does when it starts. Other tests leave far more behind than there is in it.
    gc.collect()
    gc.freeze()
    ticking = asyncio.create_task(tick())
    try:
        yield lambda: longest
    finally:
        ticking.cancel()


async def test_the_watch_sees_what_stands_still() -> None:
    async with watched_loop() as longest:
        await asyncio.sleep(0.01)
        until_seconds = time.thread_time() + 0.15
        while time.thread_time() < until_seconds:
            pass
        await asyncio.sleep(0.01)
        assert 0.15 <= longest() < 1


@pytest.mark.slow
@pytest.mark.parametrize(
    ("path", "field", "element"),
    [
        ("/v1/completions", "prompt", None),
        ("/v1/completions", "prompt", {}),
        ("/v1/completions", "stop", None),
        ("/v1/completions", "x", "a"),
        ("/v1/chat/completions", "messages", None),
        ("/v1/chat/completions", "x", "a"),
        ("/v1/embeddings", "input", []),
        ("/detokenize", "tokens", None),
    ],
)
async def test_a_list_of_a_million_is_refused_without_standing_still(path: str, field: str, element: Any) -> None:
    body = body_of(**{field: [element] * 1_600_000})
    async with serving(max_body_bytes=2**24) as gateway, watched_loop() as longest:
        began = time.process_time()
        status, error = await gateway.post_apart(body, path)
        assert (status, error["code"]) == (413, "payload_too_large")
        assert time.process_time() - began < 2

        assert longest() < turn_seconds()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("path", "fields", "param"),
    [
        ("/v1/completions", {"prompt": [None] * 400_000}, "prompt"),
        ("/v1/completions", {"prompt": [1] * 400_000 + [2**31]}, "prompt"),
        ("/v1/completions", {"prompt": [[None]] * 10_000}, "prompt"),
        ("/v1/completions", {"stop": [None] * 400_000}, "stop"),
        ("/v1/completions", {"stop_token_ids": [None] * 400_000}, "stop_token_ids"),
        ("/v1/completions", {"guided_choice": [None] * 400_000}, "guided_choice"),
        ("/v1/completions", {"logit_bias": {str(number): None for number in range(15_000)}}, "logit_bias"),
        ("/v1/chat/completions", {"messages": [None] * 400_000}, "messages"),
        ("/v1/chat/completions", {"messages": [{"role": "user", "content": [None] * 400_000}]}, "messages"),
        ("/v1/embeddings", {"input": [None] * 400_000}, "input"),
        ("/detokenize", {"tokens": [None] * 400_000}, "tokens"),
    ],
)
async def test_the_first_of_many_mistakes_ends_the_validation(path: str, fields: dict[str, Any], param: str) -> None:
    body = body_of(**fields)
    async with serving() as gateway, watched_loop() as longest:
        status, error = await gateway.post_apart(body, path)
        assert (status, error["param"]) == (400, param)

        assert longest() < turn_seconds()


@pytest.mark.slow
@pytest.mark.parametrize(
    "fields",
    [
        {"prompt": [100_000] * 400_000},
        {"prompt": ["a"] * 400_000},
        {"prompt": "\u00e9" * 1_000_000},
        {"prompt": '\\"' * 1_900_000},
        {"x": {f"a{number}": [] for number in range(19_000)}},
        {"metadata": {"a": ["a"] * 400_000}},
        {"logit_bias": {str(number): 1 for number in range(19_000)}},
    ],
    ids=lambda fields: "-".join(fields),
)
async def test_a_body_within_the_limits_is_read_without_standing_still(fields: dict[str, Any]) -> None:
    body = body_of(**fields)
    async with serving() as gateway, watched_loop() as longest:
        status, _ = await gateway.post_apart(body, "/v1/completions")
        assert status in (200, 400)

        assert longest() < turn_seconds()


@pytest.mark.parametrize("opening", [b"[", b'{"a":', b'{"a":[{"b":['])
async def test_a_deep_body_is_refused(opening: bytes) -> None:
    async with serving() as gateway:
        status, error = await gateway.post(b'{"model":"m","prompt":' + opening * 100_000)
        assert status == 400
        assert "128 levels" in error["message"]


async def test_commas_and_brackets_inside_of_texts_do_not_count() -> None:
    async with serving() as gateway:
        status, _ = await gateway.post(body_of(prompt='[{,:"\\' * 700_000))
        assert status == 200


@pytest.mark.slow
async def test_a_million_names_are_refused_and_a_thousand_are_counted() -> None:
    async with serving(max_body_bytes=2**25) as gateway:
        status, error = await gateway.post(body_of(**{f"n{number}": 1 for number in range(1_000_000)}))
        assert (status, error["code"]) == (413, "payload_too_large")
        reader, writer = await gateway.connect()
        body = body_of(**{f"{number:04}\n\r\x00é,{'n' * 1000}": 1 for number in range(1000)})
        writer.write(
            b"POST /v1/completions HTTP/1.1\r\nhost: localhost\r\ncontent-length: %d\r\n\r\n" % len(body) + body
        )
        async with asyncio.timeout(PATIENCE):
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
        writer.close()
        assert head.startswith("HTTP/1.1 200")
        line = next(line for line in head.split("\r\n") if line.startswith("x-headrace-ignored-fields: "))
        assert len(line) < 2000
        assert line.endswith(", and 984 more")
        assert "0000?????nnn" in line


@pytest.mark.slow
@pytest.mark.parametrize("headers", ["", "connection: close\r\n"])
@pytest.mark.parametrize("path", ["/v1/completions", "/v1/nothing"])
async def test_a_client_that_still_sends_gets_its_answer(headers: str, path: str) -> None:
    async with serving(max_body_bytes=1024) as gateway:
        expected = 413 if path == "/v1/completions" else 404
        for _ in range(5):
            status, _ = await gateway.post(b"x" * 20_000_000, path, headers)
            assert status == expected


async def test_a_body_that_comes_too_slowly_is_refused_and_counted() -> None:
    async with serving(body_seconds=0.3) as gateway:
        before = outcomes("upload_timeout")
        reader, writer = await gateway.connect()
        writer.write(b"POST /v1/completions HTTP/1.1\r\nhost: localhost\r\ncontent-length: 1000\r\n\r\n{")
        began = time.monotonic()
        status, error = await answer(reader)
        assert (status, error["code"]) == (408, "upload_timeout")
        assert 0.2 < time.monotonic() - began < 3
        assert outcomes("upload_timeout") == before + 1
        writer.close()


async def test_the_clients_own_deadline_bounds_its_upload() -> None:
    async with serving() as gateway:
        reader, writer = await gateway.connect()
        head = b"POST /v1/completions HTTP/1.1\r\nhost: localhost\r\nx-headrace-timeout-ms: 200\r\n"
        writer.write(head + b"content-length: 1000\r\n\r\n{")
        status, error = await answer(reader)
        assert (status, error["code"]) == (408, "upload_timeout")
        writer.close()


@pytest.mark.parametrize("sent", [b"", b"POST /v1/completions HTTP/1.1\r\nhost: localhost\r\n"])
async def test_a_head_that_never_ends_is_cut(sent: bytes) -> None:
    async with serving(header_seconds=0.2) as gateway:
        reader, writer = await gateway.connect()
        writer.write(sent)
        if sent:
            status, error = await answer(reader)
            assert (status, error["code"]) == (408, "upload_timeout")
        async with asyncio.timeout(PATIENCE):
            with contextlib.suppress(ConnectionError):
                assert await reader.read() == b""
        writer.close()


@pytest.mark.parametrize("part", [b"x: " + b"y" * 60_000 + b"\r\n", b"y" * 60_000])
async def test_a_head_without_measure_is_refused(part: bytes) -> None:
    async with serving() as gateway:
        reader, writer = await gateway.connect()
        writer.write(b"GET /health HTTP/1.1\r\nhost: localhost\r\nz: ")
        with contextlib.suppress(ConnectionError):
            for _ in range(50):
                writer.write(part)
                await writer.drain()
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            status, error = await answer(reader)
            assert status == 400
            assert "head" in error["message"]
        assert reader.at_eof() or reader.exception() is not None or status == 400
        writer.close()


async def test_what_is_no_http_is_told_so_in_json() -> None:
    async with serving() as gateway:
        reader, writer = await gateway.connect()
        writer.write(b"GARBAGE\r\n\r\n")
        status, error = await answer(reader)
        assert (status, error["code"]) == (400, "invalid_value")
        writer.close()


async def silent_reader(gateway: Gateway, **fields: Any) -> socket.socket:
    """A client that sends a request and reads nothing of what comes back."""
    connection = socket.socket()
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    connection.setblocking(False)
    await asyncio.get_running_loop().sock_connect(connection, (gateway.host, gateway.port))
    body = body_of(**fields)
    head = (
        b"POST /v1/completions HTTP/1.1\r\nhost: localhost\r\nx-headrace-timeout-ms: 500\r\ncontent-length: %d\r\n\r\n"
    )
    await asyncio.get_running_loop().sock_sendall(connection, head % len(body) + body)
    return connection


async def test_a_stream_that_nobody_reads_ends_at_its_deadline() -> None:
    async with serving(piece_count=10_000_000, piece_length=100_000) as gateway:
        before = outcomes("deadline_exceeded", "m")
        connection = await silent_reader(gateway, stream=True)
        await until(lambda: len(gateway.ledger) == 1)
        began = time.monotonic()
        await until(lambda: len(gateway.ledger) == 0)
        assert time.monotonic() - began < 3
        assert outcomes("deadline_exceeded", "m") == before + 1
        with contextlib.suppress(ConnectionError):
            async with asyncio.timeout(PATIENCE):
                while await asyncio.get_running_loop().sock_recv(connection, 2**20):
                    pass
        connection.close()


async def test_a_whole_response_that_nobody_reads_does_not_keep_its_connection() -> None:
    async with serving(piece_count=1, piece_length=20_000_000, unread_seconds=0.2) as gateway:
        before = outcomes("finished", "m")
        connection = await silent_reader(gateway)
        await until(lambda: outcomes("finished", "m") == before + 1)
        await until(lambda: gateway.connection_count == 0)
        received = 0
        with contextlib.suppress(ConnectionError):
            async with asyncio.timeout(PATIENCE):
                while part := await asyncio.get_running_loop().sock_recv(connection, 2**20):
                    received += len(part)
        assert received < 20_000_000
        connection.close()
