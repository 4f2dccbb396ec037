"""A worker is told its model, or all models where it is shared."""

from pathlib import Path
from typing import Any

import pytest

from headrace.errors import ConfigError
from headrace.settings import load
from headrace.supervisor.model_source import ModelSource
from headrace.supervisor.options import PlatformOptions
from headrace.supervisor.worker_arguments import shared_worker_arguments, worker_arguments
from headrace.worker.config import WorkerSettings

MODELS = [ModelSource("a", Path("/x")), ModelSource("b", Path("/y"))]


def test_a_shared_worker_is_told_all_models() -> None:
    chosen: dict[str, Any] = {"residency_options": {"awake_bytes": 7}, "model_options": {"block_count": 9}}
    options = PlatformOptions(MODELS, shared_worker=True, pinned=("b",), **chosen)
    settings = load(WorkerSettings, "worker", shared_worker_arguments(options), {})
    assert settings.models == {"a": Path("/x"), "b": Path("/y")}
    assert (settings.model, settings.pinned, settings.awake_bytes, settings.block_count) == ("", ("b",), 7, 9)


def test_a_worker_of_its_own_is_told_one() -> None:
    settings = load(WorkerSettings, "worker", worker_arguments(MODELS[0], PlatformOptions(MODELS)), {})
    assert (settings.model, settings.folder, settings.models) == ("a", Path("/x"), {})


def test_a_worker_is_told_its_role() -> None:
    arguments = worker_arguments(MODELS[0], PlatformOptions(MODELS, prefill_workers=1), "prefill")
    assert load(WorkerSettings, "worker", arguments, {}).role == "prefill"
    usual = load(WorkerSettings, "worker", worker_arguments(MODELS[0], PlatformOptions(MODELS)), {})
    assert usual.role == "both"


@pytest.mark.parametrize("others", [["--models", "a=/x,b=/y"], ["--model", "a", "--engine", "sim"]])
def test_a_role_is_for_one_model_of_our_own_engine(others: list[str]) -> None:
    with pytest.raises(ConfigError, match="role is prefill, which is for one model of our own engine"):
        load(WorkerSettings, "worker", ["--role", "prefill", *others], {})


def test_adapters_belong_to_one_model() -> None:
    models = [ModelSource("a", Path("/x"), adapters={"l": Path("/l")})]
    with pytest.raises(ConfigError, match="model a has adapters"):
        shared_worker_arguments(PlatformOptions(models, shared_worker=True))
