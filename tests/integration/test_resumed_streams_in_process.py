"""A stream that breaks continues at another gateway: each token once, and the answer as it would have been."""

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import httpx2
import pytest
from tests.integration.in_process_platform import InProcessPlatform, Shape, in_process_platform

from headrace import demo_model
from headrace.gateway.resumption.journals import RESUMED

pytestmark = pytest.mark.anyio
MODEL = "headrace-demo"
SECONDS = 60.0
CHAT, COMPLETION = "/v1/chat/completions", "/v1/completions"
MESSAGES = [{"role": "user", "content": "What is a token?"}]
CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "chat": (CHAT, {"messages": MESSAGES, "temperature": 1.0, "stream_options": {"include_usage": True}}),
    "seed": (CHAT, {"messages": MESSAGES, "seed": 7, "timings": True}),
    "scores": (CHAT, {"messages": MESSAGES, "logprobs": True, "top_logprobs": 2, "return_token_ids": True}),
    "stop": (CHAT, {"messages": MESSAGES, "temperature": 0, "stop": ["e"]}),
    "prompt scores": (COMPLETION, {"prompt": "A gateway", "logprobs": 1, "echo": True, "return_token_ids": True}),
    "usage": (
        COMPLETION,
        {"prompt": "A worker", "stream_options": {"include_usage": True, "continuous_usage_stats": True}},
    ),
}


@dataclass(frozen=True)
class Event:
    id: str
    data: dict[str, Any]


@pytest.fixture(scope="module")
async def platform(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[InProcessPlatform]:
    shape = Shape(
        {MODEL: demo_model.CHECKPOINT},
        [{"model": MODEL, "folder": demo_model.CHECKPOINT, "thread_count": 1}],
        gateway_count=2,
    )
    async with in_process_platform(shape, tmp_path_factory.mktemp("platform")) as made:
        yield made


@pytest.fixture
async def clients(platform: InProcessPlatform) -> AsyncIterator[list[httpx2.AsyncClient]]:
    opened = [httpx2.AsyncClient(base_url=url, timeout=SECONDS) for url in platform.https]
    yield opened
    for client in opened:
        await client.aclose()


async def events_of(response: httpx2.Response) -> AsyncIterator[Event]:
    """Events up to the end of the stream, or of the connection."""
    data: dict[str, Any] | None = None
    async for line in response.aiter_lines():
        if line.startswith("data: ") and line != "data: [DONE]":
            data = json.loads(line[6:])
        elif line.startswith("id: ") and data is not None:
            yield Event(line[4:], data)
            data = None
    assert data is None, f"an event without an id: {data}"


async def begin(client: httpx2.AsyncClient, case: str, count: int = 10_000, **fields: Any) -> list[Event]:
    """The first events of a new stream, whose client then leaves."""
    path, body = CASES[case]
    whole = {"model": MODEL, "max_tokens": 24, "stream": True, **body, **fields}
    found: list[Event] = []
    async with client.stream("POST", path, json=whole) as response:
        assert response.status_code == 200, await response.aread()
        async for event in events_of(response):
            found.append(event)
            if len(found) >= count:
                break
    return found


async def resume(client: httpx2.AsyncClient, stream: str, after: str = "", headers: Any = None) -> list[Event]:
    parameters = {"after": after} if after else {}
    async with client.stream("GET", f"/headrace/streams/{stream}", params=parameters, headers=headers) as response:
        assert response.status_code == 200, await response.aread()
        return [event async for event in events_of(response)]


def said(events: list[Event]) -> dict[str, Any]:
    """Everything that events say, however it is cut."""
    whole: dict[str, Any] = {"text": "", "logprobs": [], "token_ids": [], "usage": None, "finish": [], "role": []}
    for event in events:
        whole.setdefault("head", {name: event.data[name] for name in ("id", "created", "model", "system_fingerprint")})
        assert all(event.data[name] == value for name, value in whole["head"].items())
        whole["usage"] = event.data.get("usage") or whole["usage"]
        for choice in event.data["choices"]:
            delta = choice.get("delta") or {}
            whole["text"] += delta.get("content") or choice.get("text") or ""
            whole["role"] += [delta["role"]] if "role" in delta else []
            scores = choice["logprobs"] or {}
            whole["logprobs"] += scores.get("content") or list(
                zip(scores.get("text_offset") or [], scores.get("token_logprobs") or [], strict=True)
            )
            whole["token_ids"] += choice.get("token_ids") or []
            whole["finish"] += [choice["finish_reason"]] if choice["finish_reason"] else []
    return whole


@pytest.mark.parametrize("case", CASES)
async def test_a_finished_stream_continues_after_any_event(clients: list[httpx2.AsyncClient], case: str) -> None:
    whole = await begin(clients[0], case)
    stream = whole[0].data["id"]
    assert said(await resume(clients[1], stream)) == said(whole)
    for count in range(1, len(whole) + 1):
        rest = await resume(clients[1], stream, whole[count - 1].id)
        assert len({event.id for event in [*whole[:count], *rest]}) == count + len(rest)
        assert said([*whole[:count], *rest]) == said(whole)


@pytest.mark.parametrize("case", CASES)
async def test_a_stream_whose_client_left_continues(clients: list[httpx2.AsyncClient], case: str) -> None:
    for count in (1, 2, 5, 9):
        begun = await begin(clients[0], case, count, max_tokens=48)
        rest = await resume(clients[count % 2], begun[0].data["id"], begun[-1].id)
        again = await resume(clients[0], begun[0].data["id"])
        assert said([*begun, *rest]) == said(again)
        # On a busy machine, few events may hold all tokens.
        assert len(said(again)["text"]) > len(said(begun)["text"]) or case == "stop" or said(begun)["finish"]


async def test_the_header_of_browsers_says_the_place(clients: list[httpx2.AsyncClient]) -> None:
    whole = await begin(clients[0], "chat")
    for after in ("", whole[0].id):
        rest = await resume(clients[0], whole[0].data["id"], after, headers={"last-event-id": whole[2].id})
        assert said([*whole[:3], *rest]) == said(whole)
    assert RESUMED.labels(model=MODEL)._value.get() > 0


async def test_two_may_read_the_same_stream(clients: list[httpx2.AsyncClient]) -> None:
    begun = await begin(clients[0], "chat", 4, max_tokens=48)
    stream, after = begun[0].data["id"], begun[-1].id
    one, other = await asyncio.gather(*(resume(client, stream, after) for client in clients))
    assert said(one) == said(other)


@pytest.mark.parametrize("after", ["x", "5-4-0", "0-1-99", "0-900000-0", "1" * 400, "23-24-7", "-1-2-3"])
async def test_an_id_that_no_event_has_is_refused(clients: list[httpx2.AsyncClient], after: str) -> None:
    whole = await begin(clients[0], "seed")
    path = f"/headrace/streams/{whole[0].data['id']}"
    response = await clients[0].get(path, params={"after": after})
    assert response.status_code == 400
    assert "send the id of the last event" in response.json()["error"]["message"]


async def test_several_choices_carry_no_ids_and_an_unknown_stream_is_not_found(
    clients: list[httpx2.AsyncClient],
) -> None:
    body = {"model": MODEL, "prompt": "a", "n": 2, "max_tokens": 2, "stream": True}
    assert "\nid: " not in (await clients[0].post(COMPLETION, json=body)).text
    for name in ("chatcmpl-x", "a/b", "%00", "x" * 3000):
        response = await clients[0].get(f"/headrace/streams/{name}")
        assert response.status_code == 404
        assert "send the request again" in response.json()["error"]["message"]
