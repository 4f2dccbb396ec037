"""All five services together, in one process: what needs no kill, and so no process, is seen here in a moment."""

import asyncio
import json
from collections.abc import AsyncIterator, Iterator, Sequence
from pathlib import Path
from typing import Any

import httpx2
import pytest
from tests.integration.in_process_platform import InProcessPlatform, Shape, Worker, in_process_platform

from headrace import demo_model, failpoints

pytestmark = pytest.mark.anyio
MODEL, ENCODER = "headrace-demo", "minilm"
SLOW = {"model": MODEL, "engine": "sim", "sim_base_seconds": 0.005}
"""A pace at which a stream can be caught while it runs."""
MOMENT = 5.0
"""Seconds that anything here may take on a busy machine."""


@pytest.fixture(scope="module")
async def platform(tmp_path_factory: pytest.TempPathFactory, minilm: Path) -> AsyncIterator[InProcessPlatform]:
    """Two workers that play a model, one of which is lost in a test, and one with a real encoder."""
    encoder = {"model": ENCODER, "folder": minilm, "thread_count": 1}
    shape = Shape({MODEL: demo_model.CHECKPOINT, ENCODER: minilm}, [SLOW, SLOW, encoder])
    async with in_process_platform(shape, tmp_path_factory.mktemp("platform")) as made:
        yield made


@pytest.fixture
async def client(platform: InProcessPlatform) -> AsyncIterator[httpx2.AsyncClient]:
    async with httpx2.AsyncClient(base_url=platform.http, timeout=MOMENT) as made:
        yield made


def completion(count: int, **fields: Any) -> dict[str, Any]:
    body = {"model": MODEL, "prompt": "Where does the time go?", "max_tokens": count, "temperature": 0}
    return body | {"ignore_eos": True} | fields


async def events(response: httpx2.Response) -> AsyncIterator[dict[str, Any]]:
    """Events of a stream up to the one that closes it, without which it fails."""
    async for line in response.aiter_lines():
        if line == "data: [DONE]":
            return
        if line.startswith("data: "):
            yield json.loads(line.removeprefix("data: "))
    raise AssertionError("the stream ended without [DONE]")


async def busy(workers: Sequence[Worker]) -> list[Worker]:
    return [worker for worker in workers if (await worker.status()).open_request_count]


async def idle(platform: InProcessPlatform) -> None:
    async with asyncio.timeout(MOMENT):
        while await busy(platform.workers):  # noqa: ASYNC110 - it can only be asked
            await asyncio.sleep(0.01)


async def test_a_chat_is_streamed(client: httpx2.AsyncClient) -> None:
    messages = [{"role": "user", "content": "What is a KV cache?"}]
    body = {"model": MODEL, "messages": messages, "max_tokens": 8, "ignore_eos": True, "stream": True}
    async with client.stream("POST", "/v1/chat/completions", json=body) as response:
        assert response.status_code == 200
        choices = [event["choices"][0] async for event in events(response) if event["choices"]]
    assert choices[0]["delta"]["role"] == "assistant"
    assert "".join(choice["delta"].get("content") or "" for choice in choices)
    assert [choice["finish_reason"] for choice in choices if choice["finish_reason"]] == ["length"]


async def test_a_completion_ends_when_its_client_goes(client: httpx2.AsyncClient, platform: InProcessPlatform) -> None:
    async with client.stream("POST", "/v1/completions", json=completion(2000, stream=True)) as response:
        stream = events(response)
        await anext(stream)
        assert len(await busy(platform.workers)) == 1
    await idle(platform)


@pytest.fixture
def full_cache_disk(tmp_path: Path) -> Iterator[None]:
    (tmp_path / "cache.write").write_text("disk_full")
    failpoints.arm(tmp_path)
    yield
    failpoints.arm(None)


async def create_response(client: httpx2.AsyncClient, **fields: Any) -> httpx2.Response:
    body = {"model": MODEL, "input": "What is a KV cache?", "max_output_tokens": 8, "temperature": 0}
    return await client.post("/v1/responses", json=body | fields)


@pytest.mark.usefixtures("full_cache_disk")
async def test_a_response_that_could_not_be_stored_says_so(client: httpx2.AsyncClient) -> None:
    answer = await create_response(client, odd=1)
    made = answer.json()
    assert (answer.status_code, made["status"], made["store"]) == (200, "incomplete", False)
    assert answer.headers["x-headrace-ignored-fields"] == "odd, store"
    assert (await client.get(f"/v1/responses/{made['id']}")).status_code == 404
    asked = await create_response(client, store=False)
    assert "x-headrace-ignored-fields" not in asked.headers
    events = (await create_response(client, stream=True)).text.split("\n\n")
    (last,) = [event for event in events if event.startswith("event: response.incomplete")]
    assert json.loads(last.partition("data: ")[2])["response"]["store"] is False


@pytest.mark.usefixtures("full_cache_disk")
async def test_a_response_in_the_background_does_not_begin_unstored(client: httpx2.AsyncClient) -> None:
    answer = await create_response(client, background=True)
    assert answer.status_code == 503
    assert "could not be stored" in answer.json()["error"]["message"]


async def test_a_response_is_not_called_cancelled_before_all_can_see_it(
    client: httpx2.AsyncClient, platform: InProcessPlatform, tmp_path: Path
) -> None:
    made = (await create_response(client, background=True, max_output_tokens=2000, temperature=2)).json()
    (tmp_path / "cache.write").write_text("disk_full")
    failpoints.arm(tmp_path)
    try:
        refused = await client.post(f"/v1/responses/{made['id']}/cancel")
    finally:
        failpoints.arm(None)
    assert refused.status_code == 503
    assert (await client.post(f"/v1/responses/{made['id']}/cancel")).json()["status"] == "cancelled"
    await idle(platform)


async def test_a_response_that_was_stored_says_so(client: httpx2.AsyncClient) -> None:
    answer = await create_response(client)
    made = answer.json()
    assert made["store"] is True
    assert "x-headrace-ignored-fields" not in answer.headers
    assert (await client.get(f"/v1/responses/{made['id']}")).json() == made


async def test_an_embedding(client: httpx2.AsyncClient) -> None:
    texts = ["A cat sleeps.", "A kitten naps.", "Rates of interest rose."]
    response = await client.post("/v1/embeddings", json={"model": ENCODER, "input": texts})
    cat, kitten, rates = (entry["embedding"] for entry in response.json()["data"])
    assert len(cat) == 384
    assert product(cat, kitten) > product(cat, rates) + 0.2


def product(one: list[float], other: list[float]) -> float:
    return sum(a * b for a, b in zip(one, other, strict=True))


async def test_a_bad_request_is_told_what_is_wrong(client: httpx2.AsyncClient) -> None:
    response = await client.post("/v1/completions", json=completion(-1))
    assert response.status_code == 400
    assert response.json()["error"]["param"] == "max_tokens"
    response = await client.post("/v1/completions", json=completion(1, model="nobody"))
    assert response.status_code == 404


async def test_a_worker_that_is_lost_in_the_middle_costs_no_token(
    client: httpx2.AsyncClient, platform: InProcessPlatform
) -> None:
    whole = (await client.post("/v1/completions", json=completion(60))).json()["choices"][0]["text"]
    text = ""
    async with client.stream("POST", "/v1/completions", json=completion(60, stream=True)) as response:
        async for event in events(response):
            if not text:
                (worker,) = await busy(platform.workers)
                worker.lose()
            text += event["choices"][0]["text"]
    assert text == whole
    assert [worker for worker in await busy(platform.workers) if worker.link.there.is_cut] == []
