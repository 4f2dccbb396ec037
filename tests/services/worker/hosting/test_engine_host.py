"""A worker of several models refuses settings that cannot be meant."""

import threading
from pathlib import Path
from typing import Any

import pytest

from headrace import demo_model
from headrace.engine.checkpoints import model_limits
from headrace.engine.cpu import load as cpu_load
from headrace.engine.residency.policy.residence import Residence
from headrace.errors import ConfigError, NotFound, Unsupported
from headrace.worker.config import WorkerSettings
from headrace.worker.hosting import engine_host
from headrace.worker.hosting.engine_host import EngineHost

MODELS = {"a": demo_model.CHECKPOINT, "b": demo_model.CHECKPOINT}
MEBI = 1 << 20


def settings(tmp_path: Path, **given: Any) -> WorkerSettings:
    usual = {"models": MODELS, "packed_folder": tmp_path, "thread_count": 1, "kv_cache_bytes": 8 * MEBI}
    return WorkerSettings.model_validate(usual | given)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"model": "a"}, "model names one model, and models several"),
        ({"pinned": "c"}, "pinned names c, which is none of models"),
        ({"adapters": {"l": "/l"}}, "adapters and draft_folder belong to one model"),
        ({"tensor_parallel_count": 2}, "several models do not run on several processes"),
        ({"engine": "sim"}, "the engine sim runs one model, not several"),
    ],
)
def test_settings_that_contradict_each_other(tmp_path: Path, given: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        settings(tmp_path, **given)


def test_no_model_at_all(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"worker\.model is missing"):
        EngineHost(settings(tmp_path, models={}))


def test_budgets_that_no_model_fits_into(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"model a takes \d+ bytes with its KV cache.*raise awake_bytes"):
        EngineHost(settings(tmp_path, awake_bytes=5 * MEBI))


def test_every_model_has_proved_itself_and_pinned_ones_are_awake(tmp_path: Path) -> None:
    host = EngineHost(settings(tmp_path, awake_bytes=36 * MEBI, asleep_bytes=20 * MEBI, pinned="b"))
    try:
        assert host.is_proved
        assert host.members == {"worker-0-a": "a", "worker-0-b": "b"}
    finally:
        host.stop()


def test_kv_caches_are_sized_before_the_first_model_is_loaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Free memory says little by then: the system counts mapped weights of one model as free for the next."""
    monkeypatch.setattr(engine_host, "available_bytes", lambda: 256 * MEBI)
    counts = []
    for later in (0, 1 << 50):
        for module in (cpu_load, model_limits):
            monkeypatch.setattr(module, "available_bytes", lambda later=later: later)
        host = EngineHost(settings(tmp_path, kv_cache_bytes=0))
        counts += [engine.spec.memory.kv_bytes for engine in host.engines.values()]
        host.stop()
    assert len(set(counts)) == 1
    assert 31 * MEBI < counts[0] <= 32 * MEBI


def test_an_only_model_with_a_keep_alive_leaves_memory_and_is_still_one_worker(tmp_path: Path) -> None:
    """Under its own id, with the whole KV cache that the settings give it."""
    own = {"models": {}, "model": "a", "folder": demo_model.CHECKPOINT, "keep_alive_seconds": 0.1}
    host = EngineHost(settings(tmp_path, **own))
    moved = threading.Event()
    try:
        assert (host.members, host.ids, host.is_proved) == ({}, {"a": "worker-0"}, True)
        assert host.engines["a"].spec.memory.kv_bytes > 7 * MEBI
        assert host.resident("a").residence is Residence.AWAKE
        host.start(lambda _name: moved.set(), lambda _error: None)
        assert moved.wait(20.0)
        assert host.resident("a").residence is Residence.ON_DISK
    finally:
        host.stop()


@pytest.mark.parametrize("given", [{"engine": "vllm"}, {"role": "prefill"}, {"tensor_parallel_count": 2}])
def test_a_keep_alive_is_for_models_that_can_leave(given: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match="keep_alive_seconds is for models of our own engine in one process"):
        WorkerSettings.model_validate({"model": "m", "folder": "/m", "keep_alive_seconds": 60.0} | given)


def test_one_model_is_always_awake() -> None:
    host = EngineHost(WorkerSettings(model="m", engine="sim"))
    assert host.resident("m").residence is Residence.AWAKE
    assert (host.members, host.is_proved) == ({}, False)


def test_models_are_pinned_where_they_could_leave(tmp_path: Path) -> None:
    own = {"models": {}, "model": "a", "folder": demo_model.CHECKPOINT}
    host = EngineHost(settings(tmp_path, **own, keep_alive_seconds=60, pinned="a"))
    assert host.resident("a").is_pinned
    host.pin("a", is_pinned=False)
    assert host.resident("a").is_pinned is False
    with pytest.raises(NotFound, match="no model 'b'; it has: a"):
        host.pin("b", is_pinned=True)
    host.stop()
    alone = EngineHost(settings(tmp_path, **own))
    assert alone.resident("a").is_pinned is None
    with pytest.raises(Unsupported, match="a is always awake"):
        alone.pin("a", is_pinned=True)
