"""Several models in one worker, seen from outside: gateways, scheduler and cache take each for a worker of its own."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import httpx2
import pytest
from tests.integration.in_process_platform import InProcessPlatform, Shape, in_process_platform

from headrace import demo_model
from headrace.errors import Unavailable
from headrace.rpc.channel import open_channel
from headrace.rpc.member_address import joined
from headrace.service_clients.worker import GrpcWorkerClient

pytestmark = pytest.mark.anyio
NAMES = ("alpha", "beta.v1", "gamma")
MOMENT = 20.0
MEBI = 1 << 20


@pytest.fixture(scope="module")
async def platform(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[InProcessPlatform]:
    """Three models of about 10 MiB, and memory for one and a half of them awake."""
    models = dict.fromkeys(NAMES, demo_model.CHECKPOINT)
    worker = {
        "models": models,
        "thread_count": 1,
        "packed_folder": tmp_path_factory.mktemp("packed"),
        "awake_bytes": 40 * MEBI,
        "asleep_bytes": 200 * MEBI,
        "kv_cache_bytes": 8 * MEBI,
        "max_running_count": 8,
        "stay_seconds": 0.05,
        "swap_patience_seconds": 0.2,
    }
    async with in_process_platform(Shape(models, [worker]), tmp_path_factory.mktemp("platform")) as made:
        yield made


@pytest.fixture
async def client(platform: InProcessPlatform) -> AsyncIterator[httpx2.AsyncClient]:
    async with httpx2.AsyncClient(base_url=platform.http, timeout=MOMENT) as made:
        yield made


def completion(model: str, count: int = 12) -> dict[str, Any]:
    return {"model": model, "prompt": "Water flows", "max_tokens": count, "temperature": 0, "ignore_eos": True}


async def text(client: httpx2.AsyncClient, model: str, count: int = 12) -> str:
    response = await client.post("/v1/completions", json=completion(model, count))
    assert response.status_code == 200, response.text
    assert response.json()["model"] == model
    return str(response.json()["choices"][0]["text"])


async def told(client: httpx2.AsyncClient) -> list[dict[str, Any]]:
    """The workers as a gateway last heard of them."""
    return list((await client.get("/headrace/fleet")).json()["workers"])


async def swapped(client: httpx2.AsyncClient) -> list[dict[str, Any]]:
    """The workers, as soon as the gateway has heard of swaps: heartbeats come twice a second."""
    async with asyncio.timeout(MOMENT):
        while True:
            workers = await told(client)
            places = {worker["residence"] for worker in workers}
            if sum(worker["wakes"] for worker in workers) >= 2 and places == {"awake", "asleep"}:
                return workers
            await asyncio.sleep(0.02)


async def test_every_model_answers_alike(client: httpx2.AsyncClient) -> None:
    """The same weights under three names give the same text, however they take turns."""
    texts = await asyncio.gather(*(text(client, name) for name in NAMES * 4))
    assert len(set(texts)) == 1


async def test_a_stream_goes_on_after_its_model_slept(client: httpx2.AsyncClient) -> None:
    """Long requests of two models, with a third between: whoever sleeps in the middle ends with the same text."""
    expected = await text(client, "gamma", 400)
    texts = await asyncio.gather(*(text(client, name, 400) for name in NAMES))
    assert texts == [expected] * 3


async def test_states_and_swaps_are_shown(client: httpx2.AsyncClient) -> None:
    for name in NAMES:
        await text(client, name)
    workers = await swapped(client)
    assert {(worker["id"], worker["model"]) for worker in workers} == {
        ("worker-0-alpha", "alpha"),
        ("worker-0-beta-v1", "beta.v1"),
        ("worker-0-gamma", "gamma"),
    }
    assert {worker["loads"] for worker in workers} == {1}
    asleep = next(worker for worker in workers if worker["residence"] == "asleep")
    assert (asleep["kv_bytes"], asleep["weight_bytes"] > 0) == (0, True)
    shown = (await client.get("/metrics")).text
    assert len([line for line in shown.splitlines() if line.startswith("headrace_model_awake{")]) == 3


async def test_a_worker_that_is_not_there_is_named(platform: InProcessPlatform) -> None:
    address = platform.workers[0].address
    async with open_channel(joined(address, "worker-0-delta")) as channel:
        with pytest.raises(Unavailable, match="worker worker-0-delta is not behind this address"):
            await GrpcWorkerClient(channel).get_status(MOMENT)
    for name, model in (("worker-0-beta-v1", "beta.v1"), ("", "alpha")):
        async with open_channel(joined(address, name)) as channel:
            status = await GrpcWorkerClient(channel).get_status(MOMENT)
        assert status.model_info.model == model
