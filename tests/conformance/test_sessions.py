"""Sessions of agents, unconfigured: every request gets an answer, whole and streamed."""

import gzip
import json
from collections.abc import Callable
from typing import Any

import httpx2
import pytest
import zstandard
from tests.conformance import claude_code, codex
from tests.conformance.claude_code import CLAUDE_CODE
from tests.conformance.codex import CODEX
from tests.conformance.turn import Turn

pytestmark = pytest.mark.anyio
LAST = {"/v1/messages": ("message_stop",), "/v1/responses": ("response.completed", "response.incomplete")}
PACKED: dict[str, Callable[[bytes], bytes]] = {
    "identity": bytes,
    "gzip": gzip.compress,
    "zstd": zstandard.ZstdCompressor().compress,
}
CALLS = ("tool_use", "function_call")
TURNS = [(turn, claude_code.HEADERS) for turn in CLAUDE_CODE] + [(turn, codex.HEADERS) for turn in CODEX]


async def send(
    client: httpx2.AsyncClient, turn: Turn, headers: dict[str, str], is_stream: bool, coding: str = "identity"
) -> httpx2.Response:
    content = PACKED[coding](json.dumps(turn.body | {"stream": is_stream}).encode())
    sent = headers | {"content-type": "application/json", "content-encoding": coding}
    response = await client.post(f"{turn.path}?beta=true", content=content, headers=sent)
    assert response.status_code == 200, response.text
    assert response.headers.get("x-headrace-ignored-fields", "") == turn.ignored
    return response


def parts(answer: dict[str, Any]) -> list[dict[str, Any]]:
    """Blocks of a message, or items of a response."""
    found: list[dict[str, Any]] = answer["content"] if answer.get("type") == "message" else answer["output"]
    return found


@pytest.mark.parametrize(("turn", "headers"), TURNS, ids=lambda value: getattr(value, "title", ""))
async def test_a_turn_is_answered(client: httpx2.AsyncClient, turn: Turn, headers: dict[str, str]) -> None:
    answer = (await send(client, turn, headers, is_stream=False)).json()
    assert answer["usage"]["input_tokens"]
    if turn.counts is not None:
        assert [part["type"] in CALLS for part in parts(answer)] == [True] * turn.counts


@pytest.mark.parametrize(("turn", "headers"), TURNS, ids=lambda value: getattr(value, "title", ""))
async def test_a_turn_is_streamed(client: httpx2.AsyncClient, turn: Turn, headers: dict[str, str]) -> None:
    text = (await send(client, turn, headers, is_stream=True)).text
    events = [json.loads(line.removeprefix("data: ")) for line in text.splitlines() if line.startswith("data: ")]
    assert events[-1]["type"] in LAST[turn.path]
    assert not [event for event in events if event["type"] in ("error", "response.failed")]


@pytest.mark.parametrize("coding", PACKED)
@pytest.mark.parametrize("session", [CLAUDE_CODE, CODEX], ids=["claude_code", "codex"])
async def test_a_session_may_be_compressed(client: httpx2.AsyncClient, session: list[Turn], coding: str) -> None:
    for turn in session[:4]:
        await send(client, turn, {}, is_stream=False, coding=coding)


async def test_a_count_takes_what_a_request_takes(client: httpx2.AsyncClient) -> None:
    counted = await client.post("/v1/messages/count_tokens?beta=true", json=claude_code.COUNTED)
    whole = await client.post("/v1/messages", json=CLAUDE_CODE[4].body)
    usage = whole.json()["usage"]
    assert counted.json()["input_tokens"] == usage["input_tokens"] + usage["cache_read_input_tokens"]


async def test_a_function_of_a_namespace_is_called_by_both_of_its_names(client: httpx2.AsyncClient) -> None:
    (turn,) = [turn for turn in CODEX if turn.counts]
    (call,) = (await client.post(turn.path, json=turn.body | {"stream": False})).json()["output"]
    assert (call["name"], call["namespace"]) == ("read", "mcp__files__")
    streamed = (await client.post(turn.path, json=turn.body)).text
    assert '"name":"read"' in streamed
    assert "mcp__files__read" not in streamed


async def test_a_reference_stands_for_an_item_that_is_kept(client: httpx2.AsyncClient) -> None:
    first = (await client.post("/v1/responses", json={"input": "What is a KV cache?", "temperature": 0})).json()
    question = {"role": "user", "content": "And?"}
    referring = {"type": "item_reference", "id": first["output"][0]["id"]}
    answers = [
        await client.post("/v1/responses/input_tokens", json={"input": [item, question]})
        for item in (referring, first["output"][0])
    ]
    assert answers[0].json() == answers[1].json()
    assert "x-headrace-ignored-fields" not in answers[0].headers
