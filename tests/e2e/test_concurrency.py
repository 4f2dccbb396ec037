"""Many at once: the same tokens as alone, and nothing left behind by those who leave."""

import asyncio
import json
import random
from typing import Any

import httpx2
import pytest
from tests.harness.half_made_connections import drop_half_made_connections
from tests.harness.running_platform import RunningPlatform

QUESTIONS = ["What is continuous batching?", "How do I add a model?", "What does TTFT mean?", "Who are you?"]
STREAM_COUNT = 64
CANCEL_COUNT = 200
STAYING = 10
"""One in so many is not cancelled."""


def body(index: int, stream: bool) -> dict[str, Any]:
    """Mixed prompts and mixed lengths."""
    generator = random.Random(index)
    prompt = " ".join(generator.choices(QUESTIONS, k=generator.randint(1, 12)))
    return {
        "model": "headrace-demo",
        "prompt": f"{index}: {prompt}",
        "max_tokens": generator.randint(1, 96),
        "temperature": 0,
        "ignore_eos": True,
        "stream": stream,
        "return_token_ids": True,
    }


async def stream_tokens(client: httpx2.AsyncClient, index: int) -> list[int]:
    tokens: list[int] = []
    done = False
    async with client.stream("POST", "/v1/completions", json=body(index, True)) as response:
        assert response.status_code == 200
        async for line in response.aiter_lines():
            if line == "data: [DONE]":
                done = True
            elif line.startswith("data: "):
                tokens += json.loads(line[6:])["choices"][0]["token_ids"]
    assert done
    return tokens


async def test_64_streams_get_the_tokens_that_each_gets_alone(demo_platform: RunningPlatform) -> None:
    limits = httpx2.Limits(max_connections=STREAM_COUNT)
    async with httpx2.AsyncClient(base_url=demo_platform.http, timeout=110, limits=limits) as client:
        together = await asyncio.gather(*(stream_tokens(client, index) for index in range(STREAM_COUNT)))
        for index in range(STREAM_COUNT):
            alone = await client.post("/v1/completions", json=body(index, False))
            assert together[index] == alone.json()["choices"][0]["token_ids"], f"stream {index}"


async def leave_at_random(client: httpx2.AsyncClient, index: int) -> None:
    """Some leave in the queue, some in prefill, some in the middle of the answer, and every tenth stays to its end."""
    delay = random.Random(index).expovariate(1 / 0.15)
    work = stream_tokens(client, index) if index % 2 else client.post("/v1/completions", json=body(index, False))
    task = asyncio.ensure_future(work)
    await asyncio.sleep(delay)
    if index % STAYING:
        task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_200_cancelled_requests_leave_nothing_behind(demo_platform: RunningPlatform) -> None:
    before = demo_platform.metrics()
    async with httpx2.AsyncClient(
        base_url=demo_platform.http, timeout=60, limits=httpx2.Limits(max_connections=CANCEL_COUNT)
    ) as client:
        await asyncio.gather(*(leave_at_random(client, index) for index in range(CANCEL_COUNT)))
    drop_half_made_connections()
    await asyncio.to_thread(demo_platform.wait_until_idle)
    metrics = demo_platform.metrics()
    assert metrics["headrace_requests_total"] >= before["headrace_requests_total"] + CANCEL_COUNT / STAYING
    assert metrics["headrace_kv_blocks_used"] == 0
    assert metrics["headrace_event_loop_tasks"] < before["headrace_event_loop_tasks"] + 10


pytestmark = pytest.mark.anyio
