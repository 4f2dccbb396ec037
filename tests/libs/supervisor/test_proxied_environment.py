"""An environment that names proxies: the start, commands and the client ask a platform of this machine directly."""

import asyncio
import json
import ssl
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from headrace.cli.target import served_models
from headrace.cli.terminal.chat_turns import CHAT_PATH, ChatHistory
from headrace.client import Headrace
from headrace.launch.platform_spec import ModelSource
from headrace.supervisor.platform import Platform

MODEL = "headrace-demo"
ABSENT = "127.0.0.1:1"
"""Address at which no proxy listens."""
EVENTS = [
    {"choices": [{"index": 0, "delta": {"content": "yes"}, "finish_reason": None}]},
    {"choices": [], "usage": {"prompt_tokens": 1, "completion_tokens": 1}},
]


class Answering(BaseHTTPRequestHandler):
    """Answers as a gateway does."""

    def do_GET(self) -> None:
        ready = {"models": [MODEL]}
        listed = {"data": [{"id": MODEL, "can_chat": True}]}
        self._answer("application/json", json.dumps(ready if self.path == "/ready" else listed))

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["content-length"]))
        lines = [*map(json.dumps, EVENTS), "[DONE]"]
        self._answer("text/event-stream", "".join(f"data: {line}\n\n" for line in lines))

    def log_message(self, format: str, *args: Any) -> None: ...

    def _answer(self, kind: str, content: str) -> None:
        self.send_response(200)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(content)))
        self.end_headers()
        self.wfile.write(content.encode())


@pytest.fixture
def address() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Answering) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()
        thread.join()


@pytest.fixture(autouse=True, params=["http", "socks5"])
def _proxies(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, f"{request.param}://{ABSENT}")
    for name in ("no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)


def test_a_start_sees_that_its_gateway_answers(address: str) -> None:
    spec = SimpleNamespace(replicas_of=lambda _: 1)
    platform = SimpleNamespace(http_url=address, models=[ModelSource(MODEL, Path())], spec=spec)
    asked = Platform._is_answering(cast("Platform", platform), ssl.create_default_context())
    assert asyncio.run(asked)


def test_commands_find_the_models_and_chat(address: str) -> None:
    assert served_models(address) == {MODEL: True}
    history = ChatHistory(f"{address}{CHAT_PATH}", {"model": MODEL}, None)
    assert list(history.ask("Is it so?")) == ["yes"]


def test_the_client_finds_the_models(address: str) -> None:
    async def names() -> list[str]:
        async with Headrace(address, retries=0) as client, asyncio.timeout(20):
            return [model.name for model in await client.models()]

    assert asyncio.run(names()) == [MODEL]
