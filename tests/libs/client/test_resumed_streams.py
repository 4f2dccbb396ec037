"""A stream whose connection breaks continues at the gateway that answers, with each chunk once."""

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.cli.terminal.chat_turns import ChatHistory
from headrace.client import Headrace, http_transport
from headrace.client.answer_stream import AnswerStream
from headrace.client.streams.event_lines import EventLines
from headrace.errors import ConfigError, StageFailed, Unavailable

pytestmark = pytest.mark.anyio
TEXTS = [f"t{number} " for number in range(6)]
HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n"
STOPPING = {"error": {"message": "the gateway is about to stop", "code": "unavailable"}}
LOST = {"error": {"message": "no worker", "code": "stage_failed"}}
GONE = b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n"


def event(number: int) -> bytes:
    delta = {"content": TEXTS[number]}
    choice = {"index": 0, "delta": delta, "finish_reason": None, "token_ids": [number], "logprobs": None}
    return f"data: {json.dumps({'id': 'chatcmpl-a/b', 'choices': [choice]})}\nid: {number}-{number + 1}-0\n\n".encode()


def events(begin: int = 0, end: int = len(TEXTS)) -> bytes:
    return b"".join(map(event, range(begin, end)))


USAGE = {"id": "chatcmpl-a/b", "choices": [], "usage": {"prompt_tokens": 1, "completion_tokens": 6}}
END = f"data: {json.dumps(USAGE)}\nid: 5-6-1\n\ndata: [DONE]\n\n".encode()
WHOLE = events() + END


@dataclass
class Server:
    """A gateway that gives one reply after the other, each on a connection of its own."""

    address: str
    asked: list[str] = field(default_factory=list)


@asynccontextmanager
async def server(*replies: bytes) -> AsyncIterator[Server]:
    left = iter(replies)
    made = Server("")

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
        except asyncio.IncompleteReadError:  # a connection that the client opened in advance
            writer.close()
            return
        length = next((int(line[16:]) for line in head.splitlines() if line.startswith("content-length: ")), 0)
        await reader.readexactly(length)
        method, path = head.split()[:2]
        made.asked.append(f"{method.upper()} {path}")
        if (reply := next(left, None)) is None:
            writer.transport.abort()
            return
        writer.write(reply)
        await writer.drain()
        writer.close()

    listening = await asyncio.start_server(serve, "127.0.0.1", 0)
    made.address = f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}"
    async with listening:
        yield made


async def read(stream: AnswerStream) -> list[str]:
    return [chunk.text async for chunk in stream if chunk.text]


def broken(content: bytes) -> bytes:
    """A reply that breaks off: chunked, without its last chunk."""
    head = HEAD.replace(b"connection: close", b"transfer-encoding: chunked")
    return head + f"{len(content):x}\r\n".encode() + content + b"\r\n"


@pytest.mark.parametrize("cut", [len(event(0)), len(event(0)) + 20, len(events(0, 3)), len(events(0, 3)) - 9])
async def test_a_stream_that_breaks_anywhere_gives_each_chunk_once(cut: int) -> None:
    came = WHOLE[:cut].count(b"\n\n")
    async with server(broken(WHOLE[:cut]), HEAD + events(came) + END) as gateway, Headrace(gateway.address) as client:
        assert await read(client.stream_chat("x", model="m")) == TEXTS
    assert gateway.asked[1] == f"GET /headrace/streams/chatcmpl-a/b?after={came - 1}-{came}-0"


async def test_another_gateway_continues() -> None:
    async with (
        server(broken(events(0, 2))) as one,
        server(HEAD + events(2) + END) as other,
        Headrace([one.address, other.address]) as client,
    ):
        stream = client.stream_chat("x", model="m")
        assert await read(stream) == TEXTS
        assert (await stream.answer()).usage.output_tokens == 6
    assert [len(one.asked), len(other.asked)] == [1, 1]


async def test_a_gateway_that_stops_hands_its_stream_on_and_one_that_lost_its_worker_does_not() -> None:
    stopping = HEAD + events(0, 2) + f"data: {json.dumps(STOPPING)}\n\n".encode()
    async with server(stopping, HEAD + events(2) + END) as gateway, Headrace(gateway.address) as client:
        assert await read(client.stream_chat("x", model="m")) == TEXTS
    lost = HEAD + events(0, 2) + f"data: {json.dumps(LOST)}\n\n".encode()
    async with server(lost, HEAD + events(2) + END) as gateway, Headrace(gateway.address) as client:
        with pytest.raises(StageFailed):
            await read(client.stream_chat("x", model="m"))
    assert len(gateway.asked) == 1


async def test_a_stream_that_no_gateway_knows_ends_as_it_broke() -> None:
    async with server(broken(events(0, 2)), GONE) as gateway, Headrace(gateway.address) as client:
        with pytest.raises(Unavailable, match="the connection to"):
            await read(client.stream_chat("x", model="m"))
    assert len(gateway.asked) == 2


async def test_tries_end_after_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_transport, "RESUME_SECONDS", 0.3)
    async with server(broken(events(0, 2))) as gateway, Headrace(gateway.address) as client:
        with pytest.raises(Unavailable):
            await read(client.stream_chat("x", model="m"))
    assert 3 <= len(gateway.asked) <= 12


async def test_a_stream_without_ids_is_not_resumed() -> None:
    plain = b"".join(line + b"\n" for line in events(0, 2).split(b"\n")[:-1] if not line.startswith(b"id:"))
    async with server(broken(plain), HEAD + events(2) + END) as gateway, Headrace(gateway.address, retries=0) as client:
        with pytest.raises(Unavailable):
            await read(client.stream_chat("x", model="m"))
    assert len(gateway.asked) == 1


async def test_the_chat_in_a_terminal_continues() -> None:
    async with server(broken(events(0, 2)), broken(events(2, 4)), HEAD + events(4) + END) as gateway:
        history = ChatHistory(f"{gateway.address}/v1/chat/completions", {"model": "m"}, None)
        assert await asyncio.to_thread(lambda: list(history.ask("x"))) == TEXTS
    assert gateway.asked[1:] == [f"GET /headrace/streams/chatcmpl-a/b?after={place}-0" for place in ("1-2", "3-4")]


@pytest.mark.parametrize("addresses", [[], ["grpc://a:1", "grpc://b:1"], ["http://a", "grpc://b:1"], ["a"]])
def test_several_addresses_are_http(addresses: Sequence[str]) -> None:
    with pytest.raises(ConfigError, match="several over HTTP alone"):
        Headrace(addresses)


@given(st.integers(0, len(WHOLE)))
def test_an_event_counts_once_it_is_whole(cut: int) -> None:
    lines = EventLines()
    text = WHOLE.decode()
    first = text[:cut]
    found = [found for line in first.split("\n")[:-1] if (found := lines.push(line)) is not None]
    assert len(found) == (first.removesuffix("data: [DONE]\n\n")).count("\n\n")
    path = lines.resume_path
    place = None if path is None else path.rpartition("=")[2]
    assert place == (None if not found else "5-6-1" if len(found) == 7 else f"{len(found) - 1}-{len(found)}-0")


def test_an_event_that_is_no_object_is_an_error() -> None:
    lines = EventLines()
    lines.push("data: [1]")
    with pytest.raises(ValueError, match="no JSON object"):
        lines.push("")
