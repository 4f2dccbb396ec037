"""Sessions run in order; an open loop does not wait for answers, a closed one does."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from statistics import fmean
from typing import Any

import pytest

from headrace.load_generator.profile import Session, Turn
from headrace.load_generator.session_load import SessionLoad, arrival_gaps, run_sessions


class Platform:
    """A server that answers every request with one token, once `enough` requests are open."""

    def __init__(self, enough: int) -> None:
        self.enough = enough
        self.open = self.most_open = 0
        self.prompts: list[list[int]] = []
        self.may_answer = asyncio.Event()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        length = next(int(line[16:]) for line in head.lower().split(b"\r\n") if line[:15] == b"content-length:")
        body: dict[str, Any] = json.loads(await reader.readexactly(length))
        self.prompts.append(body["prompt"])
        self.open += 1
        self.most_open = max(self.most_open, self.open)
        if self.open >= self.enough:
            self.may_answer.set()
        await self.may_answer.wait()
        self.open -= 1
        event = b'data: {"choices":[{"index":0,"text":"a"}]}\nid: 0-1-0\n\n'
        event += b'data: {"usage":{"completion_tokens":1}}\nid: 0-1-1\n\n'
        writer.write(
            b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n\r\n" % (len(event), event)
        )
        writer.close()


@asynccontextmanager
async def listening(platform: Platform) -> AsyncIterator[str]:
    server = await asyncio.start_server(platform.serve, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()


def load(sessions: list[Session], enough: int, **arguments: Any) -> tuple[Platform, Any]:
    async def run() -> tuple[Platform, Any]:
        platform = Platform(enough)
        async with listening(platform) as url, asyncio.timeout(20):
            return platform, await run_sessions(SessionLoad(url, "m", sessions, timeout=10, **arguments))

    return asyncio.run(run())


def single(count: int) -> list[Session]:
    return [(Turn([number], 1),) for number in range(count)]


def test_an_open_loop_does_not_wait_for_answers() -> None:
    platform, result = load(single(8), 8, rate=400.0)
    assert platform.most_open == 8
    assert [record.error for record in result.records] == [""] * 8
    assert [record.input_token_count for record in result.records] == [1] * 8


def test_a_closed_loop_has_so_many_at_once() -> None:
    platform, result = load(single(9), 3, concurrency=3)
    assert (platform.most_open, len(result.records)) == (3, 9)


@pytest.mark.parametrize("arguments", [{"concurrency": 2}, {"rate": 200.0}])
def test_turns_follow_one_another(arguments: dict[str, Any]) -> None:
    sessions: list[Session] = [(Turn([number], 1), Turn([number, 9], 1)) for number in (1, 2)]
    platform, _ = load(sessions, 1, **arguments)
    for number in (1, 2):
        assert [prompt for prompt in platform.prompts if prompt[0] == number] == [[number], [number, 9]]


def test_requests_arrive_at_the_rate() -> None:
    sessions: list[Session] = [(Turn([1], 1), Turn([1], 1))] * 2000
    gaps = arrival_gaps(SessionLoad("", "m", sessions, rate=10.0), 10.0)
    assert fmean(gaps) == pytest.approx(0.2, rel=0.1)
    assert gaps == arrival_gaps(SessionLoad("", "m", sessions, rate=10.0), 10.0)
