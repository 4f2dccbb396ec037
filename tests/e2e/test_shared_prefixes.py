"""A prompt that begins as one of a full worker does begins with that worker's KV blocks, and its text is the same."""

import contextlib
import json
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
from tests.e2e.command_line import headrace_here
from tests.harness.pace import hold_back
from tests.harness.running_platform import ONE_TOKENIZER, RunningPlatform, running_platform

TIMEOUT = 60.0
TELLING = " ".join(f"The river {index * 7} flows to the mill." for index in range(60))
STORIES = [f"Story {number} of the mill. {TELLING}" for number in range(3)]
STEP_SECONDS = 0.01
WORKERS = ("worker-0", "worker-1")


def body(prompt: str, tokens: int) -> dict[str, Any]:
    return {"model": "headrace-demo", "prompt": prompt, "max_tokens": tokens, "temperature": 0, "ignore_eos": True}


def later(story: str) -> list[str]:
    return [f"{story} And {number} times it turned." for number in range(2)]


@contextlib.contextmanager
def held(platform: RunningPlatform, story: str) -> Iterator[None]:
    """Keeps a stream that begins with a story on one worker."""
    begun, ending = threading.Event(), threading.Event()

    def read() -> None:
        asked = body(story, 800) | {"stream": True}
        with httpx2.stream("POST", f"{platform.http}/v1/completions", json=asked, timeout=TIMEOUT) as response:
            for line in response.iter_lines():
                if line.startswith("data: {"):
                    begun.set()
                if ending.is_set():
                    return

    reading = threading.Thread(target=read)
    reading.start()
    try:
        assert begun.wait(TIMEOUT)
        yield
    finally:
        ending.set()
        reading.join(TIMEOUT)


@pytest.mark.slow
def test_blocks_come_from_the_worker_that_holds_them(tmp_path: Path, demo_platform: RunningPlatform) -> None:
    """Another story is tried where the first blocks were not found in time, as a busy machine may have it."""
    expected = {prompt: answer(demo_platform, prompt)[0] for story in STORIES for prompt in later(story)}
    config = tmp_path / "headrace.toml"
    pace = hold_back(tmp_path / "failpoints", WORKERS, STEP_SECONDS)
    config.write_text(f"[scheduler]\nleast_transfer_token_count = 128\n{pace}max_running_count = 1\n")
    counts = (*ONE_TOKENIZER, "--replicas", "2")
    with running_platform(tmp_path / "state", ["--config", str(config)], counts=counts) as platform:
        for story in STORIES:
            first, second = later(story)
            with held(platform, story):
                text, cached, name = answer(platform, first)
                assert text == expected[first]
                if cached["worker"] > 256:
                    assert "gives KV blocks" in explained(platform, name)
                    platform.kill(platform.busy_worker())
                    assert answer(platform, second)[0] == expected[second]
                    return
        pytest.fail(f"each of {len(STORIES)} stories was computed again")


def explained(platform: RunningPlatform, name: str) -> str:
    told: subprocess.CompletedProcess[str] = headrace_here(
        "explain", name, "--json", "--state-dir", str(platform.state_dir)
    )
    return json.dumps(json.loads(told.stdout))


def answer(platform: RunningPlatform, prompt: str) -> tuple[str, dict[str, int], str]:
    """Returns the text of an answer, its cached tokens by where they were, and the id of its request."""
    asked = body(prompt, 16) | {"timings": True}
    response = httpx2.post(f"{platform.http}/v1/completions", json=asked, timeout=TIMEOUT)
    assert response.status_code == 200, response.text
    found = response.json()
    places: dict[str, int] = found["timings"]["cached_tokens_from"]
    assert sum(places.values()) == found["timings"]["cached_tokens"]
    return found["choices"][0]["text"], places, found["id"].removeprefix("cmpl-")
