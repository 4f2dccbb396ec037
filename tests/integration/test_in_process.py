"""All five services together, in one process: what needs no kill, and so no process, is seen here in a moment."""

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import httpx2
import pytest
from tests.integration.in_process_platform import InProcessPlatform, Shape, Worker, in_process_platform

from headrace import demo_model

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
    async with asyncio.timeout(MOMENT):
        while await busy(platform.workers):  # noqa: ASYNC110 - it can only be asked
            await asyncio.sleep(0.01)


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
