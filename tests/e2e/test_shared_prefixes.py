"""A prompt that begins as one of a full worker does begins with that worker's KV blocks, and its text is the same."""

import json
import subprocess
import threading
from pathlib import Path
from typing import Any

import httpx2
import pytest
from tests.e2e.command_line import headrace_here
from tests.harness.pace import hold_back
from tests.harness.running_platform import ONE_TOKENIZER, RunningPlatform, running_platform

TIMEOUT = 60.0
SHARED = "Story of the mill. " + " ".join(f"The river {index * 7} flows to the mill." for index in range(60))
STEP_SECONDS = 0.01
WORKERS = ("worker-0", "worker-1")


def body(prompt: str, tokens: int) -> dict[str, Any]:
    return {"model": "headrace-demo", "prompt": prompt, "max_tokens": tokens, "temperature": 0, "ignore_eos": True}


def hold(platform: RunningPlatform, begun: threading.Event, ending: threading.Event) -> None:
    """Keeps a stream with the shared beginning on one worker."""
    asked = body(SHARED, 800) | {"stream": True}
    with httpx2.stream("POST", f"{platform.http}/v1/completions", json=asked, timeout=TIMEOUT) as response:
        for line in response.iter_lines():
            if line.startswith("data: {"):
                begun.set()
            if ending.is_set():
                return


@pytest.mark.slow
def test_blocks_come_from_the_worker_that_holds_them(tmp_path: Path, demo_platform: RunningPlatform) -> None:
    later = [f"{SHARED} And {number} times it turned." for number in range(3)]
    expected = [answer(demo_platform, prompt)[0] for prompt in later]
    config = tmp_path / "headrace.toml"
    pace = hold_back(tmp_path / "failpoints", WORKERS, STEP_SECONDS)
    config.write_text(f"[scheduler]\nleast_transfer_token_count = 128\n{pace}max_running_count = 1\n")
    counts = (*ONE_TOKENIZER, "--replicas", "2")
    with running_platform(tmp_path / "state", ["--config", str(config)], counts=counts) as platform:
        begun, ending = threading.Event(), threading.Event()
        holding = threading.Thread(target=hold, args=(platform, begun, ending))
        holding.start()
        try:
            assert begun.wait(TIMEOUT)
            text, cached, name = answer(platform, later[0])
            assert (text, cached["worker"] > 256) == (expected[0], True)
            told: subprocess.CompletedProcess[str] = headrace_here(
                "explain", name, "--json", "--state-dir", str(platform.state_dir)
            )
            assert "gives KV blocks" in json.dumps(json.loads(told.stdout))
            platform.kill(platform.busy_worker())
            assert [answer(platform, prompt)[0] for prompt in later[1:]] == expected[1:]
        finally:
            ending.set()
            holding.join(TIMEOUT)


def answer(platform: RunningPlatform, prompt: str) -> tuple[str, dict[str, int], str]:
    """Returns the text of an answer, its cached tokens by where they were, and the id of its request."""
    asked = body(prompt, 16) | {"timings": True}
    response = httpx2.post(f"{platform.http}/v1/completions", json=asked, timeout=TIMEOUT)
    assert response.status_code == 200, response.text
    found = response.json()
    places: dict[str, int] = found["timings"]["cached_tokens_from"]
    assert sum(places.values()) == found["timings"]["cached_tokens"]
    return found["choices"][0]["text"], places, found["id"].removeprefix("cmpl-")
