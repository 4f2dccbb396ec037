"""A gateway that is killed costs no stream: its client reads on at another gateway, each token once."""

import asyncio
import contextlib
import http.client
import json
import os
import signal
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

import psutil
import pytest
from tests.harness.running_platform import RunningPlatform, running_platform

from headrace.client import Headrace, http_transport
from headrace.client.streams.event_lines import EventLines

pytestmark = pytest.mark.slow
COUNTS = ("--gateways", "2", "--caches", "2", "--tokenizers", "1")
ROUNDS = 3
TOKENS = 400
SEEN = 12
"""Events that a client has when its gateway is killed."""
TIMEOUT = 60.0
PATIENCE = 10.0
"""Seconds for the first new token on a machine that runs other tests too. The figures are in docs/results."""


class _OverBefore(Exception):
    """All of the stream had arrived before its gateway was killed: this process was kept from running. Try again."""


@dataclass
class Broken:
    """A stream that lost its gateway, and what became of it."""

    token_ids: list[int] = field(default_factory=list)
    text: str = ""
    ids: list[str] = field(default_factory=list)
    came_before: int = 0
    """Events that came before the gateway was killed or its connection broke."""
    resumed_seconds: float = 0.0
    """Seconds from the kill to the first new event."""
    usage: Any = None

    def add(self, event: dict[str, Any], event_id: str) -> None:
        self.ids.append(event_id)
        self.usage = event["usage"] or self.usage
        for choice in event["choices"]:
            self.token_ids += choice["token_ids"]
            self.text += choice["delta"].get("content", "") if "delta" in choice else choice["text"]


def body_of(seed: int, token_count: int) -> dict[str, Any]:
    body: dict[str, Any] = {
        "model": "headrace-demo",
        "prompt": "A gateway",
        "max_tokens": token_count,
        "temperature": 1.0,
    }
    return body | {"seed": seed, "ignore_eos": True, "stream": True, "return_token_ids": True}


class Reader:
    """A client of one stream that knows nothing of ours but events and their ids."""

    def __init__(self, platform: RunningPlatform, found: Broken) -> None:
        self._address = urlsplit(platform.http).netloc
        self._found = found
        self._lines = EventLines()
        self._connection: http.client.HTTPConnection | None = None
        self._response: http.client.HTTPResponse | None = None

    def close(self) -> None:
        for each in (self._response, self._connection):
            if each is not None:
                each.close()

    def open(self, body: dict[str, Any] | None) -> int:
        """Begins a stream, or the rest of it. Returns the port of this end."""
        self.close()
        connection = self._connection = http.client.HTTPConnection(self._address, timeout=TIMEOUT)
        if body is None:
            self._lines.reconnect()
            assert self._lines.resume_path is not None
            connection.request("GET", self._lines.resume_path)
        else:
            options = {"include_usage": True}
            connection.request("POST", "/v1/completions", json.dumps(body | {"stream_options": options}))
        port: int = connection.sock.getsockname()[1]
        self._response = connection.getresponse()
        assert self._response.status == 200, self._response.read()
        return port

    def read(self, count: int) -> bool:
        """Reads events. Returns whether the stream has ended. Raises what a broken connection raises."""
        assert self._response is not None
        while count and not self._lines.is_done:
            line = self._response.readline()
            if not line:
                raise ConnectionError("the stream broke")
            event = self._lines.push(line.decode().rstrip("\n"))
            if event is not None:
                assert "error" not in event, event
                self._found.add(event, str(self._lines.resume_path))
                count -= 1
        return self._lines.is_done


def gateways_of(platform: RunningPlatform) -> list[dict[str, Any]]:
    return [service for service in platform.describe()["services"] if service["name"].startswith("gateway")]


def holder_of(gateways: list[dict[str, Any]], port: int) -> dict[str, Any]:
    """The gateway that holds the other end of a connection."""
    for gateway in gateways:
        connections = psutil.Process(gateway["pid"]).net_connections()
        if any(each.raddr and each.raddr.port == port for each in connections):
            return gateway
    raise AssertionError("no gateway holds the connection")


def break_stream(platform: RunningPlatform, seed: int, token_count: int) -> tuple[Broken, dict[str, Any]]:
    """Reads a stream whose gateway is killed in the middle. Returns what came, and the gateway."""
    found = Broken()
    with contextlib.closing(Reader(platform, found)) as reader:
        return found, _break(platform, reader, found, body_of(seed, token_count))


def _break(platform: RunningPlatform, reader: Reader, found: Broken, body: dict[str, Any]) -> dict[str, Any]:
    gateways = gateways_of(platform)
    port = reader.open(body)
    assert not reader.read(SEEN)
    gateway = holder_of(gateways, port)
    os.kill(gateway["pid"], signal.SIGKILL)
    killed = time.monotonic()
    try:
        is_done = reader.read(10_000)
    except (OSError, http.client.HTTPException):
        is_done = False
    if is_done:
        platform.wait_until_restarted(gateway["name"], gateway["restarts"] + 1)
        raise _OverBefore
    found.came_before = len(found.ids)
    while True:
        try:
            reader.open(None)
            reader.read(1)
            break
        except (OSError, http.client.HTTPException):
            assert time.monotonic() - killed < PATIENCE
            time.sleep(0.01)
    found.resumed_seconds = time.monotonic() - killed
    assert reader.read(10_000)
    return gateway


def undisturbed(platform: RunningPlatform, seed: int, token_count: int) -> Broken:
    found = Broken()
    with contextlib.closing(Reader(platform, found)) as reader:
        reader.open(body_of(seed, token_count))
        assert reader.read(10_000)
    return found


@pytest.fixture(scope="module")
def platform(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningPlatform]:
    folder = tmp_path_factory.mktemp("resumed")
    config = folder / "headrace.toml"
    config.write_text("[worker]\nsim_base_seconds = 0.005\n")
    with running_platform(folder / "state", ["--engine", "sim", "--config", str(config)], counts=COUNTS) as running:
        yield running


def check(platform: RunningPlatform, seed: int, token_count: int = TOKENS) -> Broken:
    """Kills the gateway of a stream, and compares it with one that nothing disturbs."""
    while True:
        try:
            found, gateway = break_stream(platform, seed, token_count)
            break
        except _OverBefore:
            continue
    whole = undisturbed(platform, seed, token_count)
    assert found.came_before < len(found.ids)
    assert len(set(found.ids)) == len(found.ids)
    assert found.token_ids == whole.token_ids
    assert found.text == whole.text
    assert found.usage["completion_tokens"] == whole.usage["completion_tokens"] == token_count
    platform.wait_until_restarted(gateway["name"], gateway["restarts"] + 1)
    return found


def test_a_killed_gateway_costs_no_token_and_repeats_none(platform: RunningPlatform) -> None:
    for seed in range(ROUNDS):
        assert check(platform, seed).resumed_seconds < PATIENCE


def test_our_client_resumes_alone_also_at_a_gateway_that_starts_again(
    platform: RunningPlatform, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_transport, "RESUME_SECONDS", TIMEOUT)

    async def read() -> tuple[str, str]:
        async with Headrace(platform.http, model="headrace-demo", timeout=TIMEOUT) as client:
            options: Any = {"max_tokens": TOKENS, "temperature": 1.0, "seed": 5}
            texts: list[str] = []
            async for chunk in client.stream_complete("A worker", **options):
                texts.append(chunk.text)
                if len(texts) == SEEN:
                    for name in names:
                        platform.kill(name)
            return "".join(texts), (await client.complete("A worker", **options)).text

    restarts = {name: platform.service(name)["restarts"] for name in ("gateway", "gateway-1")}
    names = list(restarts)
    said, expected = asyncio.run(read())
    assert said == expected
    for name, count in restarts.items():
        platform.wait_until_restarted(name, count + 1)
