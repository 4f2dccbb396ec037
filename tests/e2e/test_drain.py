"""A worker that is drained under streams ends none of them, changes none, and goes."""

import asyncio
import json
import time
from collections.abc import Iterator

import httpx2
import pytest
from tests.e2e.command_line import headrace_here
from tests.harness.pace import hold_back
from tests.harness.running_platform import ONE_TOKENIZER, RunningPlatform, running_platform

import headrace.cli.commands.worker_drain  # noqa: F401 - takes longer than the streams to come

STREAM_COUNT = 6
TOKEN_COUNT, STEP_SECONDS = 160, 0.025
"""Long enough that the command gets to the worker while the streams still run, also on a busy machine."""
BEGUN_COUNT = 4 * STREAM_COUNT
"""Events of all streams before a worker is drained."""
TIMEOUT = 120.0


@pytest.fixture(scope="module")
def platform(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningPlatform]:
    folder = tmp_path_factory.mktemp("drained")
    config = folder / "headrace.toml"
    config.write_text(hold_back(folder / "failpoints", ("worker-0", "worker-1"), STEP_SECONDS))
    counts = (*ONE_TOKENIZER, "--replicas", "2")
    with running_platform(folder / "state", ["--config", str(config)], counts=counts) as running:
        yield running


def drain(platform: RunningPlatform, *arguments: str) -> tuple[int, list[dict[str, object]], str]:
    done = headrace_here("drain", *arguments, "--json", "--state-dir", str(platform.state_dir))
    return done.returncode, [json.loads(line) for line in done.stdout.splitlines()], done.stderr


async def _stream(client: httpx2.AsyncClient, number: int, begun: asyncio.Semaphore) -> tuple[str, str]:
    """Returns the text of a stream, and its finish reason."""
    body = {
        "model": "headrace-demo",
        "prompt": f"Story {number} of the sea:",
        "max_tokens": TOKEN_COUNT,
        "seed": number,
        "ignore_eos": True,
        "stream": True,
    }
    text, reason = "", ""
    async with client.stream("POST", "/v1/completions", json=body) as response:
        assert response.status_code == 200
        async for line in response.aiter_lines():
            if line.startswith("data: {"):
                choice = json.loads(line.removeprefix("data: "))["choices"][0]
                text += choice["text"]
                reason = choice["finish_reason"] or reason
                begun.release()
    return text, reason


async def _streams(platform: RunningPlatform, drained: list[str] | None = None) -> list[tuple[str, str]]:
    """Returns all streams. With a list, a worker that has some is drained under them, and its name is added."""
    begun = asyncio.Semaphore(0)
    async with httpx2.AsyncClient(base_url=platform.http, timeout=TIMEOUT) as client:
        streams = [asyncio.create_task(_stream(client, number, begun)) for number in range(STREAM_COUNT)]
        if drained is not None:
            for _ in range(BEGUN_COUNT):
                await begun.acquire()
            name = await asyncio.to_thread(platform.busy_worker)
            code, told, error = await asyncio.to_thread(drain, platform, name)
            assert code == 0, error
            assert told[-1] == {"worker": name, "state": "ended", "sessions": 0}
            drained.append(name)
        return await asyncio.gather(*streams)


def wait_for_both(platform: RunningPlatform) -> None:
    """Waits until the gateway reaches both workers: one that has just started again is met a moment later."""
    deadline = time.monotonic() + TIMEOUT
    while time.monotonic() < deadline:
        workers = httpx2.get(f"{platform.http}/headrace/fleet", timeout=TIMEOUT).json()["workers"]
        if [worker["state"] for worker in workers] == ["ready", "ready"]:
            return
        time.sleep(0.05)
    raise AssertionError(workers)


def moves(platform: RunningPlatform) -> float:
    lines = httpx2.get(f"{platform.http}/metrics", timeout=TIMEOUT).text.splitlines()
    return sum(float(line.split()[-1]) for line in lines if line.startswith("headrace_moves_total{"))


@pytest.fixture(scope="module")
def undisturbed(platform: RunningPlatform) -> list[tuple[str, str]]:
    streams = asyncio.run(_streams(platform))
    assert {reason for _, reason in streams} == {"length"}
    return streams


def test_streams_outlive_their_workers(platform: RunningPlatform, undisturbed: list[tuple[str, str]]) -> None:
    drained: list[str] = []
    for _ in range(2):
        before = moves(platform)
        assert asyncio.run(_streams(platform, drained)) == undisturbed
        assert moves(platform) > before
        platform.wait_until_restarted(drained[-1], drained.count(drained[-1]))
        wait_for_both(platform)


def test_bad_names_and_last_workers_are_refused_in_words(platform: RunningPlatform) -> None:
    code, _, error = drain(platform, "worker-7")
    assert code == 1
    assert "workers: worker-0, worker-1; hosts: 127.0.0.1" in error
    code, _, error = drain(platform, "127.0.0.1")
    assert code == 1
    assert "no other worker is ready for headrace-demo" in error
    code, _, error = drain(platform, "worker-0", "--patience", "-1")
    assert code == 1
    assert "--patience must be 0 or more" in error


def test_a_patient_drain_lets_streams_end_where_they_are(
    platform: RunningPlatform, undisturbed: list[tuple[str, str]]
) -> None:
    before = moves(platform)

    async def patiently() -> list[tuple[str, str]]:
        streams = asyncio.create_task(_streams(platform))
        code, told, error = await asyncio.to_thread(drain, platform, "worker-0", "--patience", "60")
        assert (code, told[-1]["state"]) == (0, "ended"), error
        return await streams

    assert asyncio.run(patiently()) == undisturbed
    assert moves(platform) == before
