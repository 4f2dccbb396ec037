"""The Responses API over WebSocket: streams, continuation, cancel, mistakes, keys."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from tests.harness.running_platform import RunningPlatform
from websockets.exceptions import InvalidStatus
from websockets.sync.client import ClientConnection, connect
from websockets.typing import Origin

MODEL = "headrace-demo"
QUESTION = {"type": "response.create", "model": MODEL, "input": "What is continuous batching?", "temperature": 0}


@pytest.fixture
def socket(demo_platform: RunningPlatform) -> Iterator[ClientConnection]:
    with connect(f"ws{demo_platform.http.removeprefix('http')}/v1/responses") as opened:
        yield opened


def events(socket: ClientConnection) -> list[dict[str, Any]]:
    """The events up to the one that ends a response."""
    found: list[dict[str, Any]] = []
    while True:
        found.append(json.loads(socket.recv(timeout=60)))
        kind = found[-1]["type"]
        if kind == "error" or kind in ("response.completed", "response.incomplete", "response.failed"):
            return found


def text_of(response: dict[str, Any]) -> str:
    return str(response["output"][0]["content"][0]["text"])


def test_a_response_streams_and_the_next_continues_it(socket: ClientConnection) -> None:
    socket.send(json.dumps(QUESTION))
    first = events(socket)
    assert first[0]["type"] == "response.created"
    response = first[-1]["response"]
    deltas = "".join(event["delta"] for event in first if event["type"] == "response.output_text.delta")
    assert deltas == text_of(response)
    socket.send(json.dumps(QUESTION | {"previous_response_id": response["id"], "input": "And why?"}))
    second = events(socket)[-1]["response"]
    assert second["previous_response_id"] == response["id"]
    assert second["usage"]["input_tokens"] > response["usage"]["input_tokens"]


def test_a_running_response_can_be_cancelled(socket: ClientConnection, demo_platform: RunningPlatform) -> None:
    socket.send(json.dumps(QUESTION | {"temperature": 2.0, "max_output_tokens": 1500}))
    assert json.loads(socket.recv(timeout=60))["type"] == "response.created"
    socket.send(json.dumps({"type": "response.cancel"}))
    demo_platform.wait_until_idle()
    socket.send(json.dumps(QUESTION | {"max_output_tokens": 3}))
    while (last := events(socket)[-1])["type"] == "response.completed" or "response" not in last:
        pass
    assert last["response"]["status"] == "incomplete"


@pytest.mark.parametrize(
    ("message", "says"),
    [
        ("nonsense", "JSON object"),
        (json.dumps({"type": "session.update"}), "response.create"),
        (json.dumps(QUESTION | {"model": "absent"}), "absent"),
        (json.dumps(QUESTION | {"temperature": 9}), "temperature must be at most 2"),
    ],
)
def test_a_mistake_is_told_and_the_socket_goes_on(socket: ClientConnection, message: str, says: str) -> None:
    socket.send(message)
    told = json.loads(socket.recv(timeout=60))
    assert told["type"] == "error"
    assert says in told["error"]["message"]
    socket.send(json.dumps(QUESTION | {"max_output_tokens": 2}))
    assert events(socket)[-1]["type"] == "response.incomplete"


def test_a_client_that_leaves_frees_everything(demo_platform: RunningPlatform) -> None:
    with connect(f"ws{demo_platform.http.removeprefix('http')}/v1/responses") as socket:
        socket.send(json.dumps(QUESTION | {"temperature": 2.0, "max_output_tokens": 1500}))
        socket.recv(timeout=60)
    demo_platform.wait_until_idle()


def test_there_is_no_other_socket_and_pages_of_others_are_refused(demo_platform: RunningPlatform) -> None:
    address = f"ws{demo_platform.http.removeprefix('http')}"
    with pytest.raises(InvalidStatus), connect(f"{address}/v1/chat/completions"):
        pass
    with (
        pytest.raises(InvalidStatus, match="403"),
        connect(f"{address}/v1/responses", origin=Origin("https://evil.example")),
    ):
        pass
