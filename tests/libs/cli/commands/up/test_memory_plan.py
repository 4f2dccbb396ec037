"""One amount of memory is divided over all processes, and its parts never add up to more."""

from dataclasses import replace
from pathlib import Path

import pytest

from headrace.cli.commands.up.memory_plan import MIN_KV_BYTES, PROCESS_BYTES, MemoryPlan
from headrace.cli.commands.up.platform_flags import PlatformFlags
from headrace.errors import ConfigError
from headrace.launch.platform_spec import ModelSource, PlatformSpec

GB = 10**9


def checkpoint(folder: Path, *sizes: int, suffix: str = ".safetensors") -> Path:
    """A folder with files of weights of these sizes, which take no room on the disk."""
    folder.mkdir()
    for index, size in enumerate(sizes):
        with (folder / f"model-{index}{suffix}").open("wb") as file:
            file.truncate(size)
    return folder


@pytest.fixture
def spec(tmp_path: Path) -> PlatformSpec:
    large = ModelSource("large", checkpoint(tmp_path / "large", GB, GB))
    small = ModelSource("small", checkpoint(tmp_path / "small", GB // 2))
    return PlatformSpec([large, small])


def test_the_parts_add_up_to_what_was_given(spec: PlatformSpec) -> None:
    for given in (spec, replace(spec, replicas=2, gateways=2)):
        plan = MemoryPlan.of(16 * GB, given)
        whole = plan.process_count * PROCESS_BYTES + plan.copies * sum(plan.weights.values())
        assert 0 <= 16 * GB - (whole + plan.worker_count * plan.kv_bytes) < plan.worker_count
    assert plan.weights == {"large": 2 * GB, "small": GB // 2}
    assert plan.worker_count == 4
    assert plan.process_count == 2 + 2 + 2 + 1 + 1 + 4, "supervisor and NATS, gateways, tokenizers, one each, workers"


def test_each_worker_is_given_its_part(spec: PlatformSpec) -> None:
    plan = MemoryPlan.of(8 * GB, replace(spec, model_options={"precision": "int8"}))
    applied = plan.applied(replace(spec, model_options={"precision": "int8"}))
    assert applied.model_options == {"precision": "int8", "kv_cache_bytes": plan.kv_bytes}
    assert applied.residency_options == {}


def test_a_shared_worker_has_parts_for_models_awake_and_asleep(spec: PlatformSpec) -> None:
    plan = MemoryPlan.of(8 * GB, replace(spec, shared_worker=True))
    parts = plan.applied(replace(spec, shared_worker=True)).residency_options
    assert parts.keys() == {"awake_bytes", "asleep_bytes"}
    assert sum(int(str(part)) for part in parts.values()) == plan.left
    assert plan.awake_bytes > plan.weights["large"] + MIN_KV_BYTES


def test_too_little_is_refused_with_what_it_takes(spec: PlatformSpec) -> None:
    """The sentence names an amount, and that amount is enough."""
    with pytest.raises(
        ConfigError, match=r"--memory 2\.0 GB is too little: weights take large 2\.0 GB, small 500 MB"
    ) as told:
        MemoryPlan.of(2 * GB, spec)
    assert "Give at least 3.8 GB" in str(told.value)
    assert MemoryPlan.of(38 * GB // 10, spec).kv_bytes >= MIN_KV_BYTES
    with pytest.raises(ConfigError, match="Give at least"):
        MemoryPlan.of(3 * GB, replace(spec, shared_worker=True))


def test_the_lines_say_what_each_worker_reserves(spec: PlatformSpec) -> None:
    first, *rows = MemoryPlan.of(8 * GB, replace(spec, replicas=2)).text().splitlines()
    assert first == "8.0 GB of memory: 1.5 GB for 11 processes"
    assert rows[0] == "  large: 2 workers with 2.0 GB of weights and 381 MB of KV cache"
    line = MemoryPlan.of(8 * GB, replace(spec, shared_worker=True)).text()
    assert "for models awake and" in line


def test_drafts_adapters_and_wider_weights_are_counted(tmp_path: Path) -> None:
    """A folder with two forms of the same weights is counted once."""
    folder = checkpoint(tmp_path / "model", 100)
    (folder / "pytorch_model.bin").write_bytes(bytes(1000))
    adapter, draft = checkpoint(tmp_path / "adapter", 10), tmp_path / "draft.gguf"
    draft.write_bytes(bytes(7))
    model = ModelSource("m", folder, draft=draft, adapters={"a": adapter})
    assert MemoryPlan.of(8 * GB, PlatformSpec([model])).weights == {"m": 117}
    wide = PlatformSpec([model], model_options={"precision": "float32"})
    assert MemoryPlan.of(8 * GB, wide).weights == {"m": 217}


@pytest.mark.parametrize(
    ("options", "flags", "message"),
    [
        ({"model_options": {"kv_cache_bytes": 5}}, {}, "give it or --kv-cache-bytes"),
        ({"residency_options": {"awake_bytes": 5}}, {}, "give it or --awake-bytes"),
        ({"model_options": {"device": "cuda:0"}}, {}, "not for GPUs"),
        ({}, {"engine": "vllm"}, "models of our own engine"),
    ],
)
def test_what_contradicts_it_is_refused(
    spec: PlatformSpec, options: dict[str, object], flags: dict[str, object], message: str
) -> None:
    chosen = PlatformFlags(memory="8G", **flags)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match=message):
        chosen.memory_plan(replace(spec, **options))  # type: ignore[arg-type]
    assert PlatformFlags().memory_plan(spec) is None
