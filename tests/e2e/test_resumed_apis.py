"""Messages, and responses in the background, go through the death of their gateway: each event comes once."""

import contextlib
import http.client
import json
import os
import signal
import time
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import httpx2
import pytest
from tests.e2e.test_resumed_streams import COUNTS, SEEN, gateways_of, holder_of
from tests.harness.running_platform import RunningPlatform, running_platform

pytestmark = pytest.mark.slow
TOKENS = 300
TIMEOUT = 60.0
POLL_SECONDS = 0.05
RESPONSE = {"model": "headrace-demo", "input": "Tell me about a dam.", "max_output_tokens": TOKENS, "temperature": 0}


@pytest.fixture(scope="module")
def platform(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningPlatform]:
    folder = tmp_path_factory.mktemp("resumed-apis")
    config = folder / "headrace.toml"
    # Steps of 5 ms: an answer of 300 tokens outlives the kill of its gateway.
    config.write_text("[worker]\nsim_base_seconds = 0.005\n")
    with running_platform(folder / "state", ["--engine", "sim", "--config", str(config)], counts=COUNTS) as running:
        yield running


class Conversation:
    """Events of one answer, read over a connection whose gateway can be killed."""

    def __init__(self, platform: RunningPlatform) -> None:
        self._platform = platform
        self._address = urlsplit(platform.http).netloc
        self.events: list[dict[str, Any]] = []
        self.ids: list[str] = []

    def read(self, method: str, path: str, body: dict[str, Any] | None = None, *, kill_after: int = 0) -> None:
        """Reads to the end, or kills the gateway after a number of events and reads what still comes."""
        connection = http.client.HTTPConnection(self._address, timeout=TIMEOUT)
        with contextlib.closing(connection):
            connection.request(method, path, json.dumps(body) if body else None, {"content-type": "application/json"})
            gateways, port = gateways_of(self._platform), connection.sock.getsockname()[1]
            response = connection.getresponse()
            assert response.status == 200, response.read()
            gateway = holder_of(gateways, port) if kill_after else None
            with contextlib.suppress(OSError, http.client.HTTPException):
                self._take(response, None if gateway is None else gateway["pid"], kill_after)
        if gateway is not None:
            self._platform.wait_until_restarted(gateway["name"], gateway["restarts"] + 1)

    def _take(self, response: http.client.HTTPResponse, pid: int | None, kill_after: int) -> None:
        data, event_id = "", ""
        while line := response.readline().decode():
            name, _, value = line.rstrip("\n").partition(": ")
            if name == "data":
                data = value
            elif name == "id":
                event_id = value
            elif not name and data:
                self.events.append(json.loads(data))
                self.ids.append(event_id)
                data = event_id = ""
                if pid is not None and len(self.events) == kill_after:
                    os.kill(pid, signal.SIGKILL)


def test_a_message_is_read_on_elsewhere(platform: RunningPlatform) -> None:
    body = {"model": "headrace-demo", "max_tokens": TOKENS, "temperature": 0, "stream": True}
    body |= {"messages": [{"role": "user", "content": "Tell me about a mill."}]}
    broken, whole = Conversation(platform), Conversation(platform)
    broken.read("POST", "/v1/messages", body, kill_after=SEEN)
    assert broken.events[-1]["type"] != "message_stop"
    came_before = len(broken.events)
    name = broken.events[0]["message"]["id"]
    broken.read("GET", f"/headrace/streams/{name}?after={broken.ids[-1]}")
    whole.read("POST", "/v1/messages", body)
    assert len(broken.events) > came_before
    assert len(set(broken.ids)) == len(broken.ids)
    assert broken.events[-1]["type"] == "message_stop"
    assert text_of(broken.events) == text_of(whole.events)
    assert broken.events[-2] == whole.events[-2]


def text_of(events: list[dict[str, Any]]) -> str:
    return "".join(event["delta"]["text"] for event in events if event["type"] == "content_block_delta")


def test_a_response_in_the_background_is_followed_elsewhere(platform: RunningPlatform) -> None:
    body = RESPONSE | {"background": True, "stream": True}
    broken, whole = Conversation(platform), Conversation(platform)
    broken.read("POST", "/v1/responses", body, kill_after=SEEN)
    last = broken.events[-1]
    assert last["type"] != "response.completed"
    name = broken.events[0]["response"]["id"]
    broken.read("GET", f"/v1/responses/{name}?stream=true&starting_after={last['sequence_number']}")
    whole.read("POST", "/v1/responses", body)
    assert [event["sequence_number"] for event in broken.events] == list(range(len(broken.events)))
    assert [event["type"] for event in broken.events] == [event["type"] for event in whole.events]
    ended, undisturbed = broken.events[-1]["response"], whole.events[-1]["response"]
    assert ended["id"] == name
    assert said(ended) == said(undisturbed)
    assert "".join(event["delta"] for event in broken.events if event["type"].endswith("text.delta")) == said(ended)
    assert ended["usage"]["output_tokens"] == undisturbed["usage"]["output_tokens"] == TOKENS


def said(response: dict[str, Any]) -> str:
    return "".join(part["text"] for item in response["output"] for part in item["content"])


def test_a_response_that_lost_its_gateway_continues_when_it_is_asked_for(platform: RunningPlatform) -> None:
    body = RESPONSE | {"background": True, "stream": True}
    broken = Conversation(platform)
    broken.read("POST", "/v1/responses", body, kill_after=SEEN)
    name = broken.events[0]["response"]["id"]
    deadline = time.monotonic() + TIMEOUT
    while True:
        found = httpx2.get(f"{platform.http}/v1/responses/{name}", timeout=TIMEOUT).json()
        assert found["status"] in ("queued", "in_progress", "incomplete"), found["error"]
        if found["status"] == "incomplete":
            break
        assert time.monotonic() < deadline
        time.sleep(POLL_SECONDS)
    assert found["usage"]["output_tokens"] == TOKENS
    whole = httpx2.post(f"{platform.http}/v1/responses", json=body | {"background": False, "stream": False}, timeout=60)
    assert said(found) == said(whole.json())
