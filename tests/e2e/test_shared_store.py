"""A prompt outlives every worker in the store that workers share, and a store that dies costs no answer."""

import time
from pathlib import Path

import httpx2
import lmdb
from tests.e2e.command_line import headrace_here
from tests.harness.running_platform import RunningPlatform, running_platform

from headrace.access.usage_report import read_usage

PROMPT = [5 + number % 900 for number in range(400)]
SECONDS = 20.0


def ask(platform: RunningPlatform) -> tuple[str, dict[str, int]]:
    """Returns the text, and the prompt's tokens that were cached, by where they were."""
    body = {"model": "headrace-demo", "prompt": PROMPT, "max_tokens": 8, "temperature": 0, "cache": False}
    answer = httpx2.post(f"{platform.http}/v1/completions", json=body | {"timings": True}, timeout=60).json()
    return answer["choices"][0]["text"], answer["timings"]["cached_tokens_from"]


def until_stored(folder: Path, count: int) -> None:
    """Waits until the store has so many blocks."""
    deadline = time.monotonic() + SECONDS
    with lmdb.open(str(folder), readonly=True, max_dbs=2) as environment:
        table = environment.open_db(b"order", create=False)
        while True:
            with environment.begin(db=table) as transaction:
                if transaction.stat(table)["entries"] >= count:
                    return
            assert time.monotonic() < deadline
            time.sleep(0.02)


def restart(platform: RunningPlatform, restarts: int, *names: str) -> None:
    for name in names:
        platform.kill(name)
    for name in names:
        platform.wait_until_restarted(name, restarts)


def test_a_prompt_outlives_its_worker_and_its_store(tmp_path: Path) -> None:
    certificates = tmp_path / "certificates"
    assert headrace_here("certs", "create", "--folder", str(certificates)).returncode == 0
    flags = ["--kv-store-size", "64M", "--certificates", str(certificates)]
    with running_platform(tmp_path, flags) as platform:
        text, cached = ask(platform)
        assert cached == {"memory": 0, "disk": 0, "worker": 0, "store": 0}
        until_stored(tmp_path / "cache" / "kv", 384 // 16)
        restart(platform, 1, "worker-0")
        again, cached = ask(platform)
        assert again == text
        assert cached["store"] > 300
        assert cached["memory"] == cached["disk"] == cached["worker"] == 0
        recorded = list(read_usage(platform.state_dir / "usage"))
        assert recorded[-1].cached_tokens_from == {"store": cached["store"]}
        for command in ("trace", "explain"):
            told = headrace_here(command, recorded[-1].request_id, "--state-dir", str(platform.state_dir)).stdout
            assert f"{cached['store']} from the shared store" in told
        assert ask(platform) == (text, {"memory": cached["store"], "disk": 0, "worker": 0, "store": 0})
        restart(platform, 2, "worker-0")
        platform.kill("cache")
        assert ask(platform)[0] == text, "whether the store was there yet or not"
        platform.wait_until_restarted("cache", 1)
        restart(platform, 3, "worker-0")
        assert ask(platform) == (text, {"memory": 0, "disk": 0, "worker": 0, "store": cached["store"]})
