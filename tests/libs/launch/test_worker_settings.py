"""A worker's settings name its model, or all models where it is shared."""

from pathlib import Path
from typing import Any

import pytest
from tests.harness.planned_platform import planned

from headrace.errors import ConfigError
from headrace.launch.platform_spec import ModelSource, PlatformSpec
from headrace.settings import load
from headrace.worker.config import WorkerSettings

MODELS = [ModelSource("a", Path("/x")), ModelSource("b", Path("/y"))]


def settings_of(name: str, spec: PlatformSpec) -> WorkerSettings:
    """The settings that a planned worker reads from its flags."""
    return load(WorkerSettings, "worker", planned(spec)[name].arguments, {})


def test_a_shared_worker_is_told_all_models() -> None:
    chosen: dict[str, Any] = {"residency_options": {"awake_bytes": 7}, "model_options": {"block_count": 9}}
    settings = settings_of("worker-0", PlatformSpec(MODELS, shared_worker=True, pinned=("b",), **chosen))
    assert settings.models == {"a": Path("/x"), "b": Path("/y")}
    assert (settings.model, settings.pinned, settings.awake_bytes, settings.block_count) == ("", ("b",), 7, 9)


def test_a_worker_of_its_own_is_told_one() -> None:
    settings = settings_of("worker-0", PlatformSpec(MODELS))
    assert (settings.model, settings.folder, settings.models) == ("a", Path("/x"), {})


def test_a_worker_is_told_its_draft_and_its_adapters() -> None:
    model = ModelSource("a", Path("/x"), Path("/draft"), adapters={"l": Path("/l"), "k": Path("/k")})
    settings = settings_of("worker-0", PlatformSpec([model]))
    assert (settings.draft_folder, settings.adapters) == (Path("/draft"), {"l": Path("/l"), "k": Path("/k")})


def test_a_worker_is_told_its_role() -> None:
    spec = PlatformSpec(MODELS, prefill_workers=1)
    assert [settings_of(f"worker-{number}", spec).role for number in range(4)] == ["decode"] * 2 + ["prefill"] * 2
    assert settings_of("worker-0", PlatformSpec(MODELS)).role == "both"


@pytest.mark.parametrize("others", [["--models", "a=/x,b=/y"], ["--model", "a", "--engine", "sim"]])
def test_a_role_is_for_one_model_of_our_own_engine(others: list[str]) -> None:
    with pytest.raises(ConfigError, match="role is prefill, which is for one model of our own engine"):
        load(WorkerSettings, "worker", ["--role", "prefill", *others], {})


def test_adapters_belong_to_one_model() -> None:
    models = [ModelSource("a", Path("/x"), adapters={"l": Path("/l")})]
    with pytest.raises(ConfigError, match="model a has adapters"):
        planned(PlatformSpec(models, shared_worker=True))
