"""Workers of several processes: what they say, and what happens when one of their processes is killed."""

import json
import os
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import psutil
import pytest
from tests.e2e.command_line import headrace_here
from tests.harness.running_platform import RunningPlatform, running_platform
from tests.harness.told_blocks import ToldBlocks
from tests.libs.engine.engine_running import engine_config, finish, tokens

from headrace.demo_model import CHECKPOINT
from headrace.engine.contract.request import EngineRequest, SamplingParams
from headrace.engine.loading.load_text_engine import load_text_engine
from headrace.kv.held_prefix import HeldPrefix
from headrace.tokenizer.text.text_model import TextModel

MODEL = "headrace-demo"
ASKED: dict[str, Any] = {
    "model": MODEL,
    "prompt": "Continuous batching is",
    "max_tokens": 300,
    "temperature": 0,
    "ignore_eos": True,
}
START_SECONDS = 120.0
LONG = 1500
BLOCK_SIZE = 16


def platform_of(folder: Path, settings: str, *options: str) -> "Iterator[RunningPlatform]":
    config = folder / "headrace.toml"
    config.write_text(f'[worker]\nspeculation = "off"\nblock_count = 256\nexact = true\n{settings}\n')
    arguments = ["--config", str(config), *options, f"{MODEL}={CHECKPOINT}"]
    with running_platform(folder / "state", arguments, START_SECONDS) as platform:
        yield platform


@pytest.fixture(scope="module")
def groups(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningPlatform]:
    """Two workers, each of two processes that share every product, and a disk for their KV blocks."""
    folder = tmp_path_factory.mktemp("groups")
    flags = ("--replicas", "2", "--kv-folder", str(folder / "blocks"))
    yield from platform_of(folder, "tensor_parallel_count = 2\nkv_folder_bytes = 67108864", *flags)


@pytest.fixture(scope="module")
def alone() -> str:
    """The text that an engine of one process says."""
    model = TextModel(MODEL, CHECKPOINT)
    engine = load_text_engine(
        CHECKPOINT, engine_config(kernels="torch", speculation="off", block_count=256, exact=True)
    )
    sampling = SamplingParams(ASKED["max_tokens"], temperature=0.0, ignore_eos=True)
    engine.add(EngineRequest("r", tuple(model.encode(ASKED["prompt"], True)), sampling))
    found = tokens(finish(engine)["r"])
    engine.close()
    return model.decode(found, True)


def complete(platform: RunningPlatform) -> str:
    answer = httpx2.post(f"{platform.http}/v1/completions", json=ASKED, timeout=120)
    assert answer.status_code == 200, answer.text
    return str(answer.json()["choices"][0]["text"])


def followers_of(platform: RunningPlatform, worker: str) -> list[psutil.Process]:
    """The other processes of a worker."""
    return psutil.Process(platform.service(worker)["pid"]).children()


def test_two_processes_say_what_one_says(groups: RunningPlatform, alone: str) -> None:
    assert complete(groups) == alone


def test_a_killed_process_ends_its_worker_and_changes_no_text(groups: RunningPlatform, alone: str) -> None:
    parts: list[str] = []
    moving = threading.Event()
    groups.wait_until_idle()

    def read() -> None:
        body = ASKED | {"stream": True}
        with httpx2.stream("POST", f"{groups.http}/v1/completions", json=body, timeout=120) as answer:
            for line in answer.iter_lines():
                if line.startswith("data: {"):
                    parts.append(json.loads(line[6:])["choices"][0]["text"])
                    if len(parts) > 20:
                        moving.set()

    reader = threading.Thread(target=read)
    reader.start()
    assert moving.wait(60)
    worker = groups.busy_worker()
    restarts = groups.service(worker)["restarts"]
    (follower,) = followers_of(groups, worker)
    os.kill(follower.pid, signal.SIGKILL)
    reader.join(120)
    assert not reader.is_alive()
    assert "".join(parts) == alone
    groups.wait_until_restarted(worker, restarts + 1, START_SECONDS)
    assert len(followers_of(groups, worker)) == 1


def test_a_killed_worker_takes_its_other_processes_with_it_and_its_prompt_outlives_them(
    groups: RunningPlatform,
) -> None:
    told = ToldBlocks(groups, MODEL)
    before = {worker: told.in_memory(worker) for worker in ("worker-0", "worker-1")}
    text, cached = ask_long(groups)
    assert cached == {"memory": 0, "disk": 0, "worker": 0, "store": 0}
    holder, names = told.wait_until_made(LONG // BLOCK_SIZE, before)
    told.wait_until_kept(holder, names)
    for worker in before:
        (follower,) = followers_of(groups, worker)
        restarts = groups.service(worker)["restarts"]
        groups.kill(worker)
        follower.wait(10)
        groups.wait_until_restarted(worker, restarts + 1, START_SECONDS)
    told.wait_until_known(holder, names, HeldPrefix(0, len(names)))
    wait_until_any_worker_may_be_chosen(groups)
    again, cached = ask_long(groups)
    assert again == text
    assert cached["disk"] > LONG // 2, "the request went to the worker whose disk has its prompt"


def wait_until_any_worker_may_be_chosen(platform: RunningPlatform) -> None:
    """Asks until the scheduler hears from both workers. A silent one gets no requests, whatever its disk has."""
    deadline = time.monotonic() + START_SECONDS
    body = {"model": MODEL, "prompt": "Hello", "max_tokens": 1}
    while True:
        asked = httpx2.post(f"{platform.http}/v1/completions", json=body, timeout=60).json()["id"]
        shown = headrace_here("explain", asked, "--json", "--state-dir", str(platform.state_dir)).stdout
        remarks = [each["remark"] for entry in json.loads(shown)["entries"] for each in entry["candidates"]]
        if remarks == ["", ""]:
            return
        assert time.monotonic() < deadline, remarks
        time.sleep(0.1)


def ask_long(platform: RunningPlatform) -> tuple[str, dict[str, int]]:
    """Returns the text after a long prompt, and the prompt's tokens that were cached, by where they were."""
    prompt = [5 + number % 900 for number in range(LONG)]
    body = ASKED | {"prompt": prompt, "max_tokens": 16, "cache": False, "timings": True}
    answer = httpx2.post(f"{platform.http}/v1/completions", json=body, timeout=120).json()
    return answer["choices"][0]["text"], answer["timings"]["cached_tokens_from"]
