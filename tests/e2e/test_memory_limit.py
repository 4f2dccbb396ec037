"""A worker under a limit of memory, as `ulimit -v` sets it: one request may be refused, and the next is served."""

import json
import resource
import shutil
import sys
import time
from pathlib import Path

import httpx2
import psutil
import pytest
from tests.harness.running_platform import RunningPlatform, running_platform
from tests.libs.engine.tiny_models import save_random

from headrace.demo_model import CHECKPOINT

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        sys.platform != "linux", reason="limits of a running process are Linux's; to run it: take a Linux machine"
    ),
]
MODEL = "wide"
SETTINGS = """[worker]
block_count = 1024
max_step_token_count = 2048
prefix_cache = false
"""
SPARE = 24 << 20
"""Bytes that are left: enough for short requests, and not for the inner units of a long prompt in one step."""
TIMEOUT = 120.0


def make_wide_model(folder: Path) -> Path:
    """Saves a model of one layer with many inner units, with the tokenizer of the bundled one."""
    for name in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copy(CHECKPOINT / name, folder)
    size = len(json.loads((CHECKPOINT / "tokenizer.json").read_text())["model"]["vocab"]) + 64
    widths = {"hidden_size": 64, "intermediate_size": 24_576, "vocab_size": size, "max_position_embeddings": 4096}
    save_random(folder, {"model_type": "llama", "num_hidden_layers": 1, "num_attention_heads": 4, **widths})
    return folder


def ask(platform: RunningPlatform, prompt: list[int], **fields: object) -> httpx2.Response:
    body = {"model": MODEL, "prompt": prompt, "max_tokens": 4, "temperature": 0, **fields}
    return httpx2.post(f"{platform.http}/v1/completions", json=body, timeout=TIMEOUT)


def shortage_count(platform: RunningPlatform) -> float:
    lines = httpx2.get(f"{platform.http}/metrics", timeout=TIMEOUT).text.splitlines()
    return sum(float(line.rpartition(" ")[2]) for line in lines if line.startswith("headrace_out_of_memory_total{"))


def test_a_request_that_needs_too_much_ends_and_the_next_is_served(tmp_path: Path) -> None:
    config = tmp_path / "headrace.toml"
    config.write_text(SETTINGS)
    (tmp_path / "model").mkdir()
    model = make_wide_model(tmp_path / "model")
    short, long = list(range(300, 308)), [300 + index % 1000 for index in range(2000)]
    with running_platform(tmp_path / "state", ["--config", str(config), f"{MODEL}={model}"]) as platform:
        expected = ask(platform, short).json()["choices"][0]["text"]
        worker = platform.service("worker-0")
        used = psutil.Process(worker["pid"]).memory_info().vms
        resource.prlimit(worker["pid"], resource.RLIMIT_AS, (used + SPARE, resource.RLIM_INFINITY))
        answer = ask(platform, long)
        assert answer.status_code in (200, 503), answer.text
        assert answer.status_code == 200 or int(answer.headers["retry-after"]) > 0
        # The worker tells its figures twice a second.
        deadline = time.monotonic() + TIMEOUT
        while not shortage_count(platform):
            assert time.monotonic() < deadline
            time.sleep(0.1)
        again = ask(platform, short)
        assert again.status_code == 200, again.text
        assert again.json()["choices"][0]["text"] == expected
        assert platform.service("worker-0")["restarts"] == 0
