"""A model that sleeps leaves its device for the memory of the host, and goes on afterwards with the same tokens."""

import gc
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any, cast

import pytest
import torch
from tests.libs.engine.engine_running import DEFAULTS, as_on_a_gpu, engine_config, finish, request, run, tokens
from tests.libs.engine.tiny_adapters import make_adapter
from tests.libs.engine.tiny_models import make_family, make_prompts

from headrace.engine.contract.request import Delta
from headrace.engine.engines.text_engine import TextEngine
from headrace.engine.loading.load_text_engine import load_text_engine
from headrace.engine.residency.engine_store import EngineStore
from headrace.engine.residency.managed_engine import ManagedEngine
from headrace.engine.residency.memory_recovery import MemoryRecovery, Recovered
from headrace.engine.residency.policy.move import Move, MoveKind
from headrace.engine.residency.sleeper import can_sleep
from headrace.engine.residency.step_turn import StepTurn
from headrace.engine.torch.device import device_weights
from headrace.engine.torch.device.device_weights import DeviceWeights
from headrace.engine.torch.device.held_tensors import held_tensors

FAMILIES = ("llama", "qwen3_moe", "gpt_oss", "deepseek2", "gemma3n", "gemma4", "qwen3_next", "falcon_h1", "lfm2")
"""Families whose layers hold their weights in different ways."""
PROMPTS = make_prompts((5, 40))
REQUESTS = [request(str(index), prompt, max_tokens=8, seed=7) for index, prompt in enumerate(PROMPTS)]
LEFT_BYTES = 64 * 1024
"""Bound for what stays of a tiny model: angles of its rotary embedding."""


@pytest.fixture(autouse=True)
def card(monkeypatch: pytest.MonkeyPatch) -> None:
    """The operations of a GPU on the CPU, as if it had a memory of its own, and small pieces of the host's. Weights are
    of another type than their file's, whose memory torch cannot give back."""
    as_on_a_gpu(monkeypatch)
    monkeypatch.setitem(DEFAULTS, "precision", "bfloat16")
    monkeypatch.setattr(device_weights, "OFFLOADED", {"cpu"})
    monkeypatch.setattr(device_weights, "PAGE_BYTES", 10_000)


@pytest.fixture(scope="module")
def llama(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("llama")
    make_family(folder, "llama")
    return folder


def load(folder: Path, **settings: Any) -> TextEngine:
    defaults = {"max_step_token_count": 64, "block_count": 32, "max_running_count": 4, "thread_count": 1}
    return load_text_engine(folder, engine_config(**(defaults | DEFAULTS | settings)))


def weights_of(engine: TextEngine) -> DeviceWeights:
    return cast("DeviceWeights", cast("Any", engine)._offload)


def bytes_on_device(engine: TextEngine) -> int:
    return sum(storage.nbytes() for storage in weights_of(engine)._storages)


def interrupted(engine: TextEngine, **how: bool) -> Iterator[int]:
    """Answers REQUESTS with a sleep in the middle. Yields the bytes on the device meanwhile."""
    for each in REQUESTS:
        engine.add(each)
    streams: dict[str, list[Delta]] = {each.request_id: [] for each in REQUESTS}
    for _ in range(3):
        for delta in engine.step():
            streams[delta.request_id].append(delta)
    engine.sleep(**how)
    yield bytes_on_device(engine)
    engine.wake()
    for request_id, stream in finish(engine).items():
        streams[request_id] += stream
    expected = run(engine, *REQUESTS)
    assert {request_id: tokens(stream) for request_id, stream in streams.items()} == expected


@pytest.mark.parametrize("family", FAMILIES)
def test_all_weights_leave_and_come_back(tmp_path: Path, family: str) -> None:
    make_family(tmp_path, family)
    engine = load(tmp_path)
    expected = run(engine, *REQUESTS)
    weights = weights_of(engine)
    assert abs(weights.byte_count - engine.spec.memory.weight_bytes) < 0.05 * weights.byte_count
    assert bytes_on_device(engine) == weights.byte_count
    assert list(interrupted(engine)) == [0]
    assert run(engine, *REQUESTS) == expected


def test_nothing_but_angles_stays(llama: Path) -> None:
    gc.collect()
    before = {storage_of(tensor) for tensor in gc.get_objects() if isinstance(tensor, torch.Tensor)}
    engine = load(llama)
    engine.sleep()
    gc.collect()
    left = {storage_of(tensor) for tensor in gc.get_objects() if isinstance(tensor, torch.Tensor)} - before
    pages = {storage_of(page) for page in weights_of(engine)._pages}
    assert pages <= left
    assert sum(size for _, size in left - pages) < LEFT_BYTES < weights_of(engine).byte_count


def storage_of(tensor: torch.Tensor) -> tuple[int, int]:
    storage = tensor.untyped_storage()
    return storage.data_ptr(), storage.nbytes()


def test_adapters_leave_too(tmp_path: Path) -> None:
    base = make_family(tmp_path / "base", "llama")
    make_adapter(tmp_path / "adapter", base)
    plain = weights_of(load(tmp_path / "base")).byte_count
    engine = load(tmp_path / "base", adapters={"one": tmp_path / "adapter"})
    assert weights_of(engine).byte_count > plain
    assert list(interrupted(engine)) == [0]


def test_in_place_they_stay(llama: Path) -> None:
    engine = load(llama)
    assert list(interrupted(engine, in_place=True)) == [weights_of(engine).byte_count]


def test_a_host_without_room_leaves_them_where_they_are(llama: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = load(llama)
    expected = run(engine, *REQUESTS)
    monkeypatch.setattr(device_weights, "PAGE_BYTES", 1 << 60)
    with pytest.raises(MemoryError, match="the host has no room"):
        engine.sleep()
    assert bytes_on_device(engine) == weights_of(engine).byte_count
    engine.wake()
    assert run(engine, *REQUESTS) == expected


def test_a_device_without_room_leaves_them_on_the_host(llama: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = load(llama)
    expected = run(engine, *REQUESTS)
    engine.sleep()
    weights = weights_of(engine)
    sizes = weights._sizes
    monkeypatch.setattr(weights, "_sizes", [*sizes[:-1], 1 << 60])
    for _ in range(2):
        with pytest.raises(RuntimeError, match="alloc"):
            engine.wake()
        assert bytes_on_device(engine) == 0
    monkeypatch.setattr(weights, "_sizes", sizes)
    engine.wake()
    assert run(engine, *REQUESTS) == expected


def test_models_take_turns(tmp_path: Path) -> None:
    """Two engines of one process, as the model manager moves them."""
    folders = {name: tmp_path / name for name in ("a", "b")}
    for name, family in zip(folders, ("llama", "qwen3_moe"), strict=True):
        make_family(folders[name], family)
    engines = {name: load(folder) for name, folder in folders.items()}
    expected = {name: run(engine, *REQUESTS) for name, engine in engines.items()}
    turn = StepTurn()
    lenders = {name: ManagedEngine(engine.spec, turn, lambda: None, lambda: True) for name, engine in engines.items()}
    store = EngineStore(lambda _name, _share: pytest.fail("nothing has to be loaded again"), lenders)
    assert all(store.keep(name, engine) for name, engine in engines.items())
    for _ in range(2):
        for name, engine in engines.items():
            assert sum(map(bytes_on_device, engines.values())) == 0
            assert store.perform(Move(MoveKind.WAKE, name), lambda: False)
            assert run(engine, *REQUESTS) == expected[name]
            assert store.perform(Move(MoveKind.SLEEP, name), lambda: False)
    store.close()


def test_where_memory_runs_out_weights_stay(llama: Path) -> None:
    engine = load(llama)
    assert can_sleep(engine)
    recovery = MemoryRecovery(engine.spec)
    assert recovery.recover(engine, torch.OutOfMemoryError()) is Recovered.GOES_ON
    assert bytes_on_device(engine) == weights_of(engine).byte_count


def test_tensors_are_found_once_wherever_they_are_held() -> None:
    class Owner:
        __module__ = "headrace.tests"

        def method(self) -> None: ...

    one, two, three = (torch.zeros(1) for _ in range(3))
    owner = Owner()
    owner.__dict__.update(
        parts=[one, {"two": (two, one)}, owner.method], bound=partial(print, three), foreign=object(), self=owner
    )
    found = list(held_tensors(owner))
    assert sorted(map(id, found)) == sorted(map(id, (one, two, three)))
