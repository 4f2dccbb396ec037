"""Simulated workers are as fast and as large as the running ones."""

import json
from pathlib import Path

import httpx2
import pytest
from tests.e2e.command_line import headrace_here
from tests.harness.running_platform import RunningPlatform

REQUESTS = 40


@pytest.fixture
def trace(tmp_path: Path) -> str:
    rows = "".join(f"2023-11-16 18:17:{n // 10:02d}.{n % 10}00,{50 + 7 * (n % 20)},{5 + n % 30}\n" for n in range(100))
    path = tmp_path / "azure.csv"
    path.write_text("TIMESTAMP,ContextTokens,GeneratedTokens\n" + rows)
    return str(path)


def test_speed_and_size_are_those_of_the_platform_and_flags_win(demo_platform: RunningPlatform, trace: str) -> None:
    for number in range(REQUESTS):
        body = {"model": "headrace-demo", "prompt": [5 + number, 6, 7], "max_tokens": 8, "ignore_eos": True}
        assert httpx2.post(f"{demo_platform.http}/v1/completions", json=body, timeout=60).status_code == 200
    told = json.loads(headrace_here("simulate", trace, "--measured", "--url", demo_platform.http, "--json").stdout)
    assert told["policies"][0]["finished"] == 100
    scenario = told["scenario"]
    worker = httpx2.get(f"{demo_platform.http}/headrace/fleet", timeout=10).json()["workers"][0]
    assert scenario["kv_token_count"] == worker["kv_blocks"] * worker["kv_block_tokens"]
    assert 0 < scenario["base_seconds"] + scenario["decode_seconds_per_sequence"] < 1
    more = ("--measured", "--url", demo_platform.http, "--workers", "3", "--step-ms", "50", "--json")
    given = json.loads(headrace_here("simulate", trace, *more).stdout)["scenario"]
    assert (given["worker_count"], given["base_seconds"]) == (3, 0.05)


def test_a_model_without_workers_is_named(demo_platform: RunningPlatform, trace: str) -> None:
    wanted = ("--measured", "--url", demo_platform.http, "--model", "other")
    done = headrace_here("simulate", trace, *wanted)
    assert done.returncode != 0
    assert "does not serve 'other'; it serves: headrace-demo" in done.stderr
