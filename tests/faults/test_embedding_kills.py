"""A worker is killed with SIGKILL in the middle of a burst of embeddings: all are answered, bit by bit the same."""

import threading
import time
from pathlib import Path
from typing import Any

import httpx2
import pytest
from tests.harness.pace import hold_back
from tests.harness.running_platform import RunningPlatform, running_platform

INPUTS = [[101, *((1000 + 37 * index + step) % 30000 for step in range(120)), 102] for index in range(64)]
SHARES = 4
"""Requests that the burst is made of."""
STEP_SECONDS = 0.1
"""Pace of the workers at which a burst lasts until it is seen."""


def embed(platform: RunningPlatform, inputs: list[list[int]]) -> list[list[float]]:
    body: Any = {"model": "minilm", "input": inputs}
    headers = {"x-headrace-cache": "off"}
    response = httpx2.post(f"{platform.http}/v1/embeddings", json=body, headers=headers, timeout=100)
    assert response.status_code == 200, response.text
    return [entry["embedding"] for entry in response.json()["data"]]


def wait_until_busy(platform: RunningPlatform, worker: str) -> None:
    deadline = time.monotonic() + 30
    wanted = f'worker="{worker}"'
    while True:
        lines = httpx2.get(f"{platform.http}/metrics", timeout=10).text.splitlines()
        held = [line for line in lines if line.startswith("headrace_worker_open_requests{") and wanted in line]
        if held and float(held[0].rpartition(" ")[2]) >= 2:
            return
        assert time.monotonic() < deadline, "the worker never got anything to do"
        time.sleep(0.005)


@pytest.mark.slow
def test_a_burst_survives_the_death_of_a_worker(tmp_path: Path, minilm: Path) -> None:
    found: dict[int, list[list[float]]] = {}
    settings = tmp_path / "slow.toml"
    settings.write_text(hold_back(tmp_path / "failpoints", ("worker-0", "worker-1"), STEP_SECONDS))
    flags = [f"minilm={minilm}", "--replicas", "2", "--config", str(settings)]
    with running_platform(tmp_path, flags) as platform:

        def ask(share: int) -> None:
            found[share] = embed(platform, INPUTS[share::SHARES])

        threads = [threading.Thread(target=ask, args=(share,)) for share in range(SHARES)]
        for thread in threads:
            thread.start()
        wait_until_busy(platform, "worker-0")
        platform.kill("worker-0")
        for thread in threads:
            thread.join(100)
        assert sorted(found) == list(range(SHARES)), "not every request was answered"
        assert platform.metrics()["headrace_resubmissions_total"] > 0, "nothing ran there: the kill hit nobody"
        platform.wait_until_restarted("worker-0", 1)
        undisturbed = embed(platform, INPUTS)
        platform.wait_until_idle()
    for share, vectors in found.items():
        assert vectors == undisturbed[share::SHARES]
