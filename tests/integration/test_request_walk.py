"""The walks of the architecture page are those of a real request: each function that they name is entered by one."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import httpx2
import pytest
from tests.architecture.test_architecture_page import WALKS, steps
from tests.integration.function_trace import FunctionTrace
from tests.integration.in_process_platform import Shape, in_process_platform

from headrace import demo_model

pytestmark = pytest.mark.anyio
MODEL = "headrace-demo"
SECONDS = 60.0
LAST = ("gateway/request/ledger.py", "Ledger._settle")
ELSEWHERE = {
    ("tokenizer/processes/text_jobs.py", "encode"),
    ("tokenizer/processes/text_pool.py", "TextPool.encode"),
}
"""Entered in a process of the tokenizer, which a platform in one process goes without."""


@pytest.fixture(scope="module")
async def entered(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[set[tuple[str, str]]]:
    """Functions that a streamed chat enters from its first byte to its last."""
    trace = FunctionTrace()
    shape = Shape(
        {MODEL: demo_model.CHECKPOINT}, [{"model": MODEL, "folder": demo_model.CHECKPOINT, "thread_count": 1}]
    )
    body = {
        "model": MODEL,
        "messages": [{"role": "user", "content": "What is a token?"}],
        "max_tokens": 8,
        "stream": True,
    }
    async with in_process_platform(shape, tmp_path_factory.mktemp("platform")) as platform:
        async with httpx2.AsyncClient(base_url=platform.http, timeout=SECONDS) as client:
            with trace.watching():
                response = await client.post("/v1/chat/completions", json=body)
                assert response.text.endswith("data: [DONE]\n\n"), response.text
                await ended(trace)
        yield trace.entered
    trace.close()


async def ended(trace: FunctionTrace) -> None:
    """Waits for the last function of all, which runs after the last byte."""
    async with asyncio.timeout(SECONDS):
        while LAST not in trace.entered:  # noqa: ASYNC110 - it can only be looked at
            await asyncio.sleep(0.01)


@pytest.mark.parametrize("heading", WALKS)
async def test_a_request_enters_each_function_of_the_page(
    root: Path, entered: set[tuple[str, str]], heading: str
) -> None:
    walk = {(place, name) for place, name in steps(root, heading) if place.endswith(".py")} - ELSEWHERE
    assert walk
    assert sorted(walk - entered) == []
