"""A prompt that a worker knew is read from the disk after a restart, with a flag of `headrace up` alone."""

from pathlib import Path

import httpx2
from tests.e2e.command_line import headrace, headrace_here
from tests.harness.running_platform import RunningPlatform, running_platform

PROMPT = [5 + number % 900 for number in range(400)]


def ask(platform: RunningPlatform) -> tuple[str, dict[str, int]]:
    """Returns the text, and the prompt's tokens that were cached, by where they were."""
    body = {"model": "headrace-demo", "prompt": PROMPT, "max_tokens": 8, "temperature": 0, "cache": False}
    answer = httpx2.post(f"{platform.http}/v1/completions", json=body | {"timings": True}, timeout=60).json()
    return answer["choices"][0]["text"], answer["timings"]["cached_tokens_from"]


def test_a_prompt_outlives_its_platform(tmp_path: Path) -> None:
    flags = ["--kv-folder", str(tmp_path / "blocks"), "--kv-folder-size", "64M"]
    with running_platform(tmp_path / "state", flags) as platform:
        text, cached = ask(platform)
        assert cached == {"memory": 0, "disk": 0, "worker": 0, "store": 0}
        platform.wait_until_idle()
    with running_platform(tmp_path / "state", flags) as platform:
        again, cached = ask(platform)
        assert (
            f"{cached['disk']} from a disk"
            in headrace_here("trace", "last", "--state-dir", str(platform.state_dir)).stdout
        )
        assert ask(platform) == (text, {"memory": cached["disk"], "disk": 0, "worker": 0, "store": 0}), (
            "it is in memory now"
        )
    assert again == text
    assert cached["disk"] > 300
    assert cached["memory"] == cached["worker"] == cached["store"] == 0


def test_a_size_without_a_folder_is_refused(tmp_path: Path) -> None:
    done = headrace("up", "--kv-folder-size", "8G", "--state-dir", str(tmp_path))
    assert done.returncode != 0
    assert "name it with --kv-folder" in done.stderr
