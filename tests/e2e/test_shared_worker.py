"""Thirteen models behind one worker process, with memory for four: every request ends well."""

import asyncio
import random
import statistics
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx2
import pytest
from tests.e2e.command_line import headrace
from tests.harness.running_platform import running_platform

from headrace import demo_model

MODEL_COUNT = 13
AWAKE_COUNT = 4
REQUEST_COUNT = 160
AT_ONCE = 24
MEBI = 1 << 20
SETTLE_SECONDS = 15.0
MODEL_BYTES = 18 * MEBI
"""Bytes of the bundled model with a KV cache of 8 MiB, and a little more."""
TIMEOUT = 60.0


def by_zipf(count: int, seed: int) -> list[str]:
    """Draws names of models: the n-th is asked 1/n times as often as the first (Zipf's law)."""
    names = [f"model-{number}" for number in range(MODEL_COUNT)]
    weights = [1 / (number + 1) for number in range(MODEL_COUNT)]
    return random.Random(seed).choices(names, weights, k=count)


async def ask_all(url: str, names: list[str]) -> tuple[Counter[int], set[str], list[float]]:
    """Counts of statuses, texts, and seconds of each request."""
    statuses, texts, seconds = Counter[int](), set[str](), list[float]()
    room = asyncio.Semaphore(AT_ONCE)

    async def ask(client: httpx2.AsyncClient, name: str) -> None:
        body = {"model": name, "prompt": "Water", "max_tokens": 4, "temperature": 0, "ignore_eos": True}
        async with room:
            started = time.perf_counter()
            response = await client.post("/v1/completions", json=body)
            seconds.append(time.perf_counter() - started)
        statuses[response.status_code] += 1
        if response.status_code == 200:
            assert response.json()["model"] == name
            texts.add(response.json()["choices"][0]["text"])

    async with httpx2.AsyncClient(base_url=url, timeout=TIMEOUT) as client:
        await asyncio.gather(*(ask(client, name) for name in names))
    return statuses, texts, seconds


def settled_fleet(url: str) -> tuple[list[dict[str, Any]], int]:
    """Returns the status of each model, and the number of models that are awake. Each reports its own, so that for a
    moment one that has just woken and one that has just been put to sleep may both be counted."""
    deadline = time.monotonic() + SETTLE_SECONDS
    while True:
        told = httpx2.get(f"{url}/headrace/fleet", timeout=TIMEOUT).json()["workers"]
        awake = sum(worker["residence"] == "awake" for worker in told)
        if awake <= AWAKE_COUNT or time.monotonic() > deadline:
            return told, awake
        time.sleep(0.2)


@pytest.mark.slow
def test_hundreds_of_requests_by_zipfs_law_all_end_well(tmp_path: Path) -> None:
    models = [f"model-{number}={demo_model.CHECKPOINT}" for number in range(MODEL_COUNT)]
    memory = ["--awake-bytes", str(AWAKE_COUNT * MODEL_BYTES), "--asleep-bytes", str(MODEL_COUNT * MODEL_BYTES)]
    cache = ["--kv-cache-bytes", str(8 * MEBI), "--max-running-count", "16"]
    with running_platform(tmp_path, [*models, "--one-worker", *memory, *cache]) as platform:
        workers = [service for service in platform.describe()["services"] if service["name"].startswith("worker")]
        assert len(workers) == 1
        statuses, texts, seconds = asyncio.run(ask_all(platform.http, by_zipf(REQUEST_COUNT, seed=7)))
        assert statuses == {200: REQUEST_COUNT}
        assert len(texts) == 1, "the same weights under every name"
        told, awake = settled_fleet(platform.http)
        assert len(told) == MODEL_COUNT
        assert awake <= AWAKE_COUNT
        swaps = sum(worker["wakes"] + worker["loads"] for worker in told) - MODEL_COUNT
        assert swaps > AWAKE_COUNT
        cuts = statistics.quantiles(seconds, n=100)
        print(f"p50 {cuts[49]:.3f} s, p99 {cuts[98]:.3f} s, {swaps} swaps, {awake} awake")
        assert [service["restarts"] for service in platform.describe()["services"]] == [0] * len(
            platform.describe()["services"]
        )


@pytest.mark.slow
def test_a_model_is_pinned_while_it_runs_and_stays_so(tmp_path: Path) -> None:
    """Three models share the room of two."""
    state = tmp_path / "state"
    models = [f"{name}={demo_model.CHECKPOINT}" for name in ("one", "other", "kept")]
    memory = ["--awake-bytes", str(2 * MODEL_BYTES), "--asleep-bytes", str(3 * MODEL_BYTES)]
    with running_platform(state, [*models, "--one-worker", *memory, "--kv-cache-bytes", str(8 * MEBI)]) as platform:

        def ask(name: str) -> None:
            body = {"model": name, "prompt": "Water", "max_tokens": 2}
            assert httpx2.post(f"{platform.http}/v1/completions", json=body, timeout=TIMEOUT).status_code == 200

        def fleet() -> dict[str, dict[str, Any]]:
            told = httpx2.get(f"{platform.http}/headrace/fleet", timeout=TIMEOUT).json()["workers"]
            return {worker["model"]: worker for worker in told}

        def is_kept() -> bool:
            worker = fleet().get("kept", {})
            return bool(worker) and (worker["pinned"], worker["residence"]) == (True, "awake")

        done = headrace("models", "pin", "kept", "--state-dir", str(state))
        assert (done.returncode, done.stdout) == (0, "kept stays awake\n"), done.stderr
        wait_for(is_kept)
        before = fleet()["kept"]
        for name in ("one", "other") * 3:
            ask(name)
        after = fleet()["kept"]
        assert (after["wakes"], after["loads"]) == (before["wakes"], before["loads"])
        refused = httpx2.put(f"{platform.http}/headrace/pins/one", timeout=TIMEOUT)
        assert (refused.status_code, "pin fewer models" in refused.json()["error"]["message"]) == (400, True)
        platform.kill("worker-0")
        platform.wait_until_restarted("worker-0", 1)
        wait_for(is_kept)
        assert httpx2.delete(f"{platform.http}/headrace/pins/kept", timeout=TIMEOUT).json()["pinned"] is False
        wait_for(lambda: fleet()["kept"]["pinned"] is False)


def wait_for(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + TIMEOUT
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


@pytest.mark.slow
def test_a_model_that_sleeps_for_too_long_is_replaced_by_a_smaller_one(tmp_path: Path) -> None:
    """Two models share the room of one beside a pinned third, which answers for whichever of them sleeps."""
    config = tmp_path / "platform.toml"
    config.write_text('[gateway]\noverflow = {one = "small", other = "small"}\noverflow_wait_seconds = 0\n')
    models = [f"{name}={demo_model.CHECKPOINT}" for name in ("one", "other", "small")]
    memory = ["--awake-bytes", str(2 * MODEL_BYTES), "--asleep-bytes", str(3 * MODEL_BYTES), "--pin", "small"]
    options = ["--one-worker", *memory, "--kv-cache-bytes", str(8 * MEBI), "--config", str(config)]
    with running_platform(tmp_path / "state", [*models, *options]) as platform:
        found = {}
        for name in ("one", "other", "small"):
            body = {"model": name, "prompt": "Water", "max_tokens": 2}
            answer = httpx2.post(f"{platform.http}/v1/completions", json=body, timeout=TIMEOUT)
            assert answer.status_code == 200, answer.text
            found[name] = answer.json()["model"], answer.headers.get("x-headrace-overflow")
    assert found.pop("small") == ("small", None)
    assert sorted(found.values(), key=str) in (
        [("one", None), ("small", "other")],
        [("other", None), ("small", "one")],
    )
