"""Kernels are launched with their device as the current one of the thread, by a process alone and by the ranks of a
group; and a step of a group waits for nothing but its tokens."""

import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from tests.harness.ended import wait_ended
from tests.libs.engine.device_waits import DeviceWaits
from tests.libs.engine.engine_running import engine_config, request, run
from tests.libs.engine.parallel.forked_followers import END_SECONDS, ForkedFollowers
from tests.libs.engine.tiny_models import make_prompts
from tests.libs.engine.triton import current_devices
from tests.libs.engine.triton.tiny_quantized import quantize_tiny

from headrace.engine.engines.text_engine import TextEngine
from headrace.engine.kv.block_exchange import exchange_of
from headrace.engine.loading.load_text_engine import load_text_engine
from headrace.engine.parallel import local_rendezvous
from headrace.engine.parallel.stage_model import StageModel
from headrace.engine.torch.device.current_device import on_device
from headrace.engine.triton.residual_norm import normalize
from headrace.kv.block_hash import hash_blocks

PROMPTS = make_prompts((3, 18))
KINDS: tuple[dict[str, Any], ...] = ({"temperature": 0, "logprob_count": 1}, {"temperature": 1.0, "seed": 5})
SPLITS = [
    {"tensor_parallel_count": 2},
    {"pipeline_parallel_count": 2},
    {"tensor_parallel_count": 2, "pipeline_parallel_count": 2},
]
SEEN = {"launch True", "copy True", "allocate True", "clear True", "release True"}


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("model")
    quantize_tiny(folder, "awq", num_hidden_layers=2, intermediate_size=64)
    return folder


@pytest.fixture(scope="module")
def alone(model: Path) -> dict[str, list[int]]:
    """The tokens of a process alone."""
    return generate(load(model))


@pytest.fixture
def notes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The file in which followers note what they do. They are forked from a process that has imported torch."""
    path = tmp_path / "notes"
    followers = ForkedFollowers(current_devices.__name__, str(path))
    started = SimpleNamespace(Popen=followers.start, TimeoutExpired=subprocess.TimeoutExpired)
    monkeypatch.setattr(local_rendezvous, "subprocess", started)
    yield path
    left = wait_ended(followers.running(), END_SECONDS)
    followers.close()
    assert left == []


def load(folder: Path, **settings: Any) -> TextEngine:
    usual = {"kernels": "triton", "block_count": 32, "max_running_count": 4, "thread_count": 1}
    return load_text_engine(folder, engine_config(**(usual | settings)))


def generate(engine: TextEngine) -> dict[str, list[int]]:
    """Tokens of both prompts at once."""
    asked = zip(map(str, range(len(PROMPTS))), PROMPTS, KINDS, strict=True)
    return run(engine, *(request(name, prompt, max_tokens=2, **kind) for name, prompt, kind in asked))


def test_a_process_alone_enters_its_device(
    model: Path, alone: dict[str, list[int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the thread that loads, in another one that steps, and between steps for blocks of other engines."""
    current_devices.watch(monkeypatch, current_devices.refuse)
    engine = load(model)
    with ThreadPoolExecutor(1) as stepping:
        assert stepping.submit(generate, engine).result() == alone
    exchange = exchange_of(engine)
    assert exchange is not None
    hashes = hash_blocks(PROMPTS[1], engine.spec.block_size, "")
    lease = exchange.lease(hashes)
    contents = exchange.export(lease, 0, len(hashes))
    exchange.release(lease)
    engine.sleep()
    engine.wake()
    exchange.release(exchange.import_blocks(hashes, contents))


def test_a_launch_without_a_device_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also in a thread beside one that has entered it."""
    current_devices.watch(monkeypatch, current_devices.refuse)
    inputs = torch.ones((1, 16)), torch.ones(16), 1e-5
    with on_device(torch.device("cpu")), ThreadPoolExecutor(1) as other:
        normalize(*inputs)
        with pytest.raises(AssertionError, match="launch without a current device"):
            other.submit(normalize, *inputs).result()


@pytest.mark.parametrize("split", SPLITS, ids=["tensor", "pipeline", "both"])
def test_ranks_enter_their_devices_and_wait_for_their_tokens_alone(
    model: Path, alone: dict[str, list[int]], notes: Path, monkeypatch: pytest.MonkeyPatch, split: dict[str, int]
) -> None:
    current_devices.watch(monkeypatch, current_devices.refuse)
    engine = load(model, **split)
    waits, compute, in_steps = DeviceWaits(monkeypatch), StageModel.run, []

    def watched(*operands: Any) -> torch.Tensor:
        waits.take()
        logits = compute(*operands)
        in_steps.append(waits.take())
        return logits

    monkeypatch.setattr(StageModel, "run", watched)
    try:
        assert generate(engine) == alone
        engine.sleep()
        engine.wake()
    finally:
        engine.close()
    assert in_steps == [{}] * 2
    assert current_devices.read_notes(notes) == SEEN
