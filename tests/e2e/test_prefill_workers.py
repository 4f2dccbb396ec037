"""A platform whose prompts are computed apart answers as one whose worker does everything."""

import threading
from pathlib import Path
from typing import Any

import httpx2
import pytest
from tests.harness.pace import hold_back
from tests.harness.running_platform import RunningPlatform, running_platform

MODEL = "headrace-demo"
TIMEOUT = 60.0
PROMPT_COUNT = 6
MIN = 128
STEP_SECONDS = 0.008


def body(number: int) -> dict[str, Any]:
    """A long prompt that begins as no other does."""
    sentences = (f"The river {index * (number + 3)} flows to the mill." for index in range(40))
    prompt = f"Story {number}. " + " ".join(sentences)
    return {"model": MODEL, "prompt": prompt, "max_tokens": 24, "temperature": 0, "ignore_eos": True}


def ask(platform: RunningPlatform, number: int) -> tuple[str, int]:
    """Text of the answer, and prompt tokens that were not computed where it runs."""
    response = httpx2.post(f"{platform.http}/v1/completions", json=body(number), timeout=TIMEOUT)
    assert response.status_code == 200, response.text
    answer = response.json()
    details = answer["usage"].get("prompt_tokens_details") or {}
    return answer["choices"][0]["text"], details.get("cached_tokens", 0)


def stream(platform: RunningPlatform, began: threading.Event, ending: threading.Event) -> None:
    """Keeps one request running until it is stopped."""
    asked = body(1000) | {"prompt": "Once", "max_tokens": 1500, "stream": True}
    while not ending.is_set():
        with httpx2.stream("POST", f"{platform.http}/v1/completions", json=asked, timeout=TIMEOUT) as response:
            for line in response.iter_lines():
                if line.startswith("data: {"):
                    began.set()
                if ending.is_set():
                    return


@pytest.mark.slow
def test_prompts_computed_apart_give_the_same_text(tmp_path: Path, demo_platform: RunningPlatform) -> None:
    config = tmp_path / "headrace.toml"
    pace = hold_back(tmp_path / "failpoints", ["worker-0"], STEP_SECONDS)
    config.write_text(f"[scheduler]\nleast_transfer_token_count = {MIN}\n{pace}")
    expected = [ask(demo_platform, number)[0] for number in range(PROMPT_COUNT + 1)]
    arguments = ["--prefill-workers", "1", "--config", str(config)]
    with running_platform(tmp_path / "state", arguments) as platform:
        services = platform.describe()["services"]
        assert [one["name"] for one in services if one["name"].startswith("worker")] == ["worker-0", "worker-1"]
        began, ending = threading.Event(), threading.Event()
        readers = [threading.Thread(target=stream, args=(platform, began, ending)) for _ in range(2)]
        for reader in readers:
            reader.start()
        try:
            assert began.wait(TIMEOUT)
            answers = [ask(platform, number) for number in range(PROMPT_COUNT)]
        finally:
            ending.set()
            for reader in readers:
                reader.join(TIMEOUT)
        assert [text for text, _ in answers] == expected[:PROMPT_COUNT]
        assert max(cached for _, cached in answers) > MIN, "some prompt came from the prefill worker"
        platform.kill("worker-1")
        assert ask(platform, PROMPT_COUNT)[0] == expected[PROMPT_COUNT]
