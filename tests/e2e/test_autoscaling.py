"""A platform's workers follow its traffic: none while nothing comes, one for a request that waits, two for many."""

import asyncio
import json
import time
from collections.abc import Callable, Iterator

import httpx2
import pytest
from tests.e2e.command_line import headrace_here
from tests.harness.pace import hold_back
from tests.harness.running_platform import ONE_TOKENIZER, RunningPlatform, running_platform

TIMEOUT = 120.0
SETTINGS = """
[scheduler]
scaling_idle_seconds = 3
scaling_settle_seconds = 3
scaling_start_seconds = 3

"""
RUNNING = "max_running_count = 4\n"
STEP_SECONDS = 0.005
"""Seconds added to each step, so that a few requests keep workers busy for as long as scaling takes."""
BODY = {"model": "headrace-demo", "prompt": "Once upon a time", "max_tokens": 48, "seed": 1, "ignore_eos": True}


@pytest.fixture(scope="module")
def platform(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningPlatform]:
    folder = tmp_path_factory.mktemp("scaled")
    config = folder / "headrace.toml"
    workers = hold_back(folder / "failpoints", ("worker-0", "worker-1"), STEP_SECONDS)
    config.write_text(f"{SETTINGS}{workers}{RUNNING}")
    counts = (*ONE_TOKENIZER, "--autoscale", "0:2")
    with running_platform(folder / "state", ["--config", str(config)], counts=counts) as running:
        yield running


def workers(platform: RunningPlatform) -> list[str]:
    described = json.loads((platform.state_dir / "platform.json").read_text())
    return [service["name"] for service in described["services"] if service["name"].startswith("worker")]


async def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + TIMEOUT
    while not condition():
        assert time.monotonic() < deadline
        await asyncio.sleep(0.05)


async def text_of(client: httpx2.AsyncClient) -> str:
    response = await client.post("/v1/completions", json=BODY)
    assert response.status_code == httpx2.codes.OK, response.text
    return str(response.json()["choices"][0]["text"])


@pytest.mark.anyio
async def test_workers_come_and_go_with_the_traffic(platform: RunningPlatform) -> None:
    async with httpx2.AsyncClient(base_url=platform.http, timeout=TIMEOUT) as client:
        expected = await text_of(client)
        await wait_until(lambda: not workers(platform))
        assert (await client.get("/ready")).status_code == httpx2.codes.OK
        assert [model["id"] for model in (await client.get("/v1/models")).json()["data"]] == ["headrace-demo"]
        # It waits for a worker, which is started for it.
        assert await text_of(client) == expected
        assert workers(platform) == ["worker-0"]
        many = [asyncio.create_task(text_of(client)) for _ in range(50)]
        await wait_until(lambda: workers(platform) == ["worker-0", "worker-1"])
        assert set(await asyncio.gather(*many)) == {expected}
        await wait_until(lambda: not workers(platform))


@pytest.mark.anyio
async def test_streams_of_a_worker_that_goes_are_whole(platform: RunningPlatform) -> None:
    """Four long requests for each worker, of which one suffices after most have ended."""
    bodies = [BODY | {"seed": number, "max_tokens": 48 if number < 6 else 300} for number in range(9)]
    async with httpx2.AsyncClient(base_url=platform.http, timeout=TIMEOUT) as client:
        alone = [await _tokens(client, body) for body in bodies[6:]]
        many = [asyncio.create_task(_tokens(client, body)) for _ in range(5) for body in bodies]
        await wait_until(lambda: len(workers(platform)) == 2)
        texts = await asyncio.gather(*many)
        assert [texts[9 * turn + 6 : 9 * turn + 9] for turn in range(5)] == [alone] * 5
        await wait_until(lambda: not workers(platform))


async def _tokens(client: httpx2.AsyncClient, body: dict[str, object]) -> str:
    """Returns the text of a stream that has to end whole."""
    text, is_done = "", False
    async with client.stream("POST", "/v1/completions", json=body | {"stream": True}) as response:
        async for line in response.aiter_lines():
            data = line.removeprefix("data: ")
            is_done = is_done or data == "[DONE]"
            if line.startswith("data: {"):
                text += "".join(choice["text"] for choice in json.loads(data)["choices"])
    assert is_done, text
    return text


def test_the_decisions_are_shown(platform: RunningPlatform) -> None:
    shown = json.loads(headrace_here("explain", "scaling", "--json", "--state-dir", str(platform.state_dir)).stdout)
    (model,) = shown["models"]
    signals = [decision["signal"] for decision in model["decisions"]]
    assert signals.count("idle") >= 2
    assert "arrival" in signals
    assert "requests" in signals
