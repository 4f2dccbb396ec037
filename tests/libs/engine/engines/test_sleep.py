"""An engine that sleeps gives its KV memory back, and goes on afterwards as if nothing had been."""

import resource
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.libs.engine.engine_running import DEFAULTS, engine_config, finish, request, run, tokens
from tests.libs.engine.tiny_models import make_oracle, make_prompts

from headrace.demo_model import CHECKPOINT, DRAFT
from headrace.engine.contract.request import Delta
from headrace.engine.engines.text_engine import TextEngine
from headrace.engine.loading.load_text_engine import load_text_engine

pytestmark = pytest.mark.usefixtures("each_kernel")

PROMPTS = make_prompts((5, 40, 90))
MEGABYTE = 1 << 20
STATM = Path("/proc/self/statm")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("grouped")
    make_oracle(folder, "grouped")
    return folder


def load(folder: Path, **settings: Any) -> TextEngine:
    defaults = {"max_step_token_count": 64, "block_count": 64, "thread_count": 1}
    return load_text_engine(folder, engine_config(**(defaults | DEFAULTS | settings)))


@pytest.mark.slow
@pytest.mark.parametrize("drafts", [False, True])
def test_everything_goes_on_with_the_same_tokens(folder: Path, drafts: bool) -> None:
    folder, speculation = (CHECKPOINT, {"speculation": "on", "draft_folder": DRAFT}) if drafts else (folder, {})
    samplings: tuple[dict[str, Any], ...] = (
        {"temperature": 0.0},
        {"seed": 3, "top_p": 0.9},
        {"seed": 4, "frequency_penalty": 0.5},
    )
    requests = [
        request(str(index), prompt, max_tokens=24, logprob_count=1, **sampling)
        for index, (prompt, sampling) in enumerate(zip(PROMPTS, samplings, strict=True))
    ]
    expected: dict[str, Any] = {}
    for each in requests:
        expected |= run(load(folder), each)
    engine = load(folder, **speculation)
    engine.add(requests[0])
    streams: dict[str, list[Delta]] = {str(index): [] for index in range(len(requests))}
    for index in range(6):
        for delta in engine.step():
            streams[delta.request_id].append(delta)
        if index in (1, 3):
            engine.sleep()
            engine.add(requests[index // 2 + 1])
            assert engine.step() == []
            assert not engine.has_work()
            engine.check_invariants()
            engine.wake()
    for request_id, stream in finish(engine).items():
        streams[request_id] += stream
    assert {request_id: tokens(stream) for request_id, stream in streams.items()} == expected
    assert engine.stats().preemption_count > 0


def test_the_prefix_cache_is_forgotten_with_its_events(folder: Path) -> None:
    engine = load(folder)
    run(engine, request("r", PROMPTS[2], max_tokens=4))
    stored = engine.drain_block_events().stored
    assert len(stored) == (len(PROMPTS[2]) + 3) // 16
    engine.sleep()
    assert set(engine.drain_block_events().removed) == set(stored)
    engine.sleep()
    engine.wake()
    engine.wake()
    run(engine, request("r", PROMPTS[2], max_tokens=4))
    assert engine.stats().prefix_hit_token_count == 0


def test_a_request_can_be_cancelled_during_sleep(folder: Path) -> None:
    engine = load(folder)
    engine.add(request("r", PROMPTS[0], max_tokens=40))
    engine.step()
    engine.sleep()
    engine.cancel("r")
    engine.wake()
    assert not engine.has_work()
    assert engine.stats().used_block_count == 0


@pytest.mark.skipif(
    not STATM.exists(), reason="this system does not tell a process's memory as /proc does; to run it: Linux"
)
def test_memory_goes_back_to_the_system(folder: Path) -> None:
    """128 MiB of keys and values, all written, in a process whose heap has room for them from before: what is taken
    from a heap and freed stays with the process."""
    *filler, _last = [bytearray(100_000) for _ in range(2_000)]
    del filler
    engine = load(folder, block_count=16_384)
    with torch.inference_mode():
        engine._runner.clear(list(range(16_384)))
    awake = _resident_bytes()
    engine.sleep()
    assert awake - _resident_bytes() > 120 * MEGABYTE
    engine.wake()
    assert len(run(engine, request("r", PROMPTS[0], max_tokens=4))["r"]) == 4


def _resident_bytes() -> int:
    return int(STATM.read_text().split()[1]) * resource.getpagesize()
