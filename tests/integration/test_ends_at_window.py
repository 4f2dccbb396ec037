"""A gateway with `ends_at_window`: answers that may be longer than the model's window end there."""

from collections.abc import AsyncIterator
from typing import Any

import httpx2
import pytest
from tests.integration.in_process_platform import InProcessPlatform, Shape, in_process_platform

from headrace import demo_model

pytestmark = pytest.mark.anyio
MODEL = "headrace-demo"
PATIENCE = 30.0
BEYOND = 32_000
"""Tokens that no answer of the model has."""
BODIES: dict[str, dict[str, Any]] = {
    "/v1/chat/completions": {"messages": [{"role": "user", "content": "What is a KV cache?"}]},
    "/v1/completions": {"prompt": "A KV cache is"},
}


@pytest.fixture(scope="module")
async def platform(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[InProcessPlatform]:
    worker = {"model": MODEL, "engine": "sim", "sim_base_seconds": 0.0001}
    shape = Shape({MODEL: demo_model.CHECKPOINT}, [worker], {"gateway": {"ends_at_window": True}})
    async with in_process_platform(shape, tmp_path_factory.mktemp("window")) as made:
        yield made


@pytest.mark.parametrize("path", BODIES)
async def test_more_than_the_window_may_be_asked_for(platform: InProcessPlatform, path: str) -> None:
    body = {"model": MODEL, "max_tokens": BEYOND, "ignore_eos": True} | BODIES[path]
    async with httpx2.AsyncClient(base_url=platform.http, timeout=PATIENCE) as client:
        (model,) = (await client.get("/v1/models")).json()["data"]
        answer = await client.post(path, json=body)
    assert answer.status_code == 200, answer.text
    told = answer.json()
    assert told["choices"][0]["finish_reason"] == "length"
    assert told["usage"]["total_tokens"] == model["max_model_length"] < BEYOND
