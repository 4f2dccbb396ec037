"""A real platform whose streams go on past the context's end, with keys and values in 8 bits."""

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
from tests.e2e.command_line import headrace
from tests.harness.running_platform import RunningPlatform, running_platform
from tests.libs.engine.engine_running import engine_config

from headrace.demo_model import CHECKPOINT
from headrace.engine.contract.request import EngineRequest, SamplingParams
from headrace.engine.loading.load_text_engine import load_text_engine

CONTEXT = 160
STREAM_TOKENS = 1200
"""More than seven contexts."""
STEP_SECONDS = 0.01
"""Least seconds of a step until a worker is killed: the stream lasts 12 s, and its worker is found within 10."""
PROMPT = list(range(10, 60))


@pytest.fixture(scope="module")
def platform(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningPlatform]:
    folder = tmp_path_factory.mktemp("long")
    settings = f"[worker]\nmax_model_length = {CONTEXT}\nfailpoints = '{folder}'\n"
    (folder / "settings.toml").write_text(settings)
    arguments = ["--replicas", "2", "--long-context", "evict", "--kv-precision", "int8", "--exact"]
    arguments += ["--config", str(folder / "settings.toml")]
    with running_platform(folder / "state", arguments) as platform:
        yield platform


@contextlib.contextmanager
def slow_steps(platform: RunningPlatform) -> Iterator[None]:
    """Slows the workers down, so that a busy machine gets to the kill while the stream still runs."""
    points = [platform.state_dir.parent / name / "engine.step" for name in ("worker-0", "worker-1")]
    for point in points:
        point.parent.mkdir(exist_ok=True)
        point.write_text(f"sleep {STEP_SECONDS}")
    try:
        yield
    finally:
        for point in points:
            point.unlink()


def choices(platform: RunningPlatform) -> Iterator[dict[str, Any]]:
    """Yields the events of a stream that is longer than the context."""
    body = {"model": "headrace-demo", "prompt": PROMPT, "max_tokens": STREAM_TOKENS, "temperature": 0}
    body |= {"ignore_eos": True, "stream": True, "return_token_ids": True}
    with httpx2.stream("POST", f"{platform.http}/v1/completions", json=body, timeout=60) as response:
        for line in response.iter_lines():
            if line.startswith("data: {"):
                event = json.loads(line[6:])
                assert "error" not in event, event
                yield event["choices"][0]


def stream(platform: RunningPlatform, kill_after: int | None = None) -> list[int]:
    """Returns the tokens of a stream. `kill_after`: tokens after which its worker is killed."""
    found: list[int] = []
    worker = ""
    reasons: list[str] = []
    with contextlib.ExitStack() as slowness:
        if kill_after is not None:
            slowness.enter_context(slow_steps(platform))
        for choice in choices(platform):
            found += choice.get("token_ids", ())
            reasons += filter(None, [choice["finish_reason"]])
            if kill_after is not None:
                worker = worker or platform.busy_worker()
                if len(found) >= kill_after:
                    platform.kill(worker)
                    slowness.close()
                    kill_after = None
    assert reasons == ["length"]
    return found


def test_a_stream_passes_the_context_and_survives_its_worker(platform: RunningPlatform) -> None:
    config = engine_config(
        long_context="evict", kv_precision="int8", max_model_length=CONTEXT, block_count=64, thread_count=1, exact=True
    )
    engine = load_text_engine(CHECKPOINT, config)
    engine.add(EngineRequest("r", tuple(PROMPT), SamplingParams(STREAM_TOKENS, temperature=0.0, ignore_eos=True)))
    expected: list[int] = []
    while engine.has_work():
        expected += (token_id for delta in engine.step() for token_id in delta.token_ids)
    engine.close()
    assert len(expected) == STREAM_TOKENS
    assert stream(platform) == expected
    platform.wait_until_idle()
    moved = platform.metrics()["headrace_resubmissions_total"]
    assert stream(platform, kill_after=2 * CONTEXT) == expected
    assert platform.metrics()["headrace_resubmissions_total"] == moved + 1
    platform.wait_until_idle()


def test_a_prompt_may_not_exceed_the_context(platform: RunningPlatform) -> None:
    body = {"model": "headrace-demo", "prompt": [10] * CONTEXT, "max_tokens": 1}
    response = httpx2.post(f"{platform.http}/v1/completions", json=body, timeout=30)
    assert response.status_code == 400
    assert "context" in response.json()["error"]["message"]


def test_without_max_tokens_the_output_ends_with_the_context(platform: RunningPlatform) -> None:
    body = {"model": "headrace-demo", "messages": [{"role": "user", "content": "Count."}], "ignore_eos": True}
    usage = httpx2.post(f"{platform.http}/v1/chat/completions", json=body, timeout=30).json()["usage"]
    assert usage["total_tokens"] == CONTEXT


def test_a_kv_precision_that_cannot_be_is_named_at_the_start(tmp_path: Path) -> None:
    arguments = ["--state-dir", str(tmp_path / "state"), "--http-port", "0", "--grpc-port", "0"]
    arguments += ["--kv-precision", "int8", "--kernels", "torch"]
    ended = headrace("up", "--json", *arguments, timeout=60)
    assert ended.returncode != 0
    assert "kv_precision is 'int8'" in ended.stdout + ended.stderr
