"""Each option of a model reaches the engine from a flag of `headrace up`, from the environment and from the file, in
this order of precedence, and only options that were given are passed on."""

import json
from pathlib import Path
from typing import Any

import pytest
from cyclopts import App
from tests.harness.planned_platform import CORES, planned

from headrace.cli.model_flags import NO_FLAGS, ModelFlags, given
from headrace.engine.contract.engine_config import EngineConfig
from headrace.engine.loading import load_engine as loading
from headrace.launch.platform_spec import ModelSource, PlatformSpec
from headrace.settings import load
from headrace.worker.config import WorkerSettings
from headrace.worker.load_engine import load_engine

SOURCE = ModelSource("m", Path("/nowhere/m"))
VALUES: dict[str, Any] = {
    "device": "cuda:1",
    "precision": "int4",
    "exact": True,
    "kv_precision": "fp8",
    "kernels": "torch",
    "cuda_graphs": "on",
    "overlap": "off",
    "packed_folder": Path("/nowhere/packed"),
    "packed_max_bytes": 12345,
    "thread_count": 3,
    "max_model_length": 777,
    "long_context": "evict",
    "max_running_count": 5,
    "max_step_token_count": 99,
    "max_step_seconds": 0.35,
    "block_size": 32,
    "block_count": 17,
    "kv_cache_bytes": 1 << 20,
    "prefix_cache": False,
    "state_snapshot_count": 6,
    "sampling_defaults": "neutral",
    "speculation": "off",
    "tensor_parallel_count": 2,
    "pipeline_parallel_count": 3,
    "collective_backend": "gloo",
    "rendezvous": "here:1",
    "draft_folder": Path("/nowhere/draft"),
    "adapters": {"polite": Path("/nowhere/polite")},
}
"""Another value than the default for every option."""
OTHERS: dict[str, Any] = {"thread_count": 7, "block_size": 48, "precision": "int8"}
"""A third value, for options whose sources are distinguished."""
MODEL_BY_MODEL = {"draft_folder": "draft", "adapters": "adapters"}
"""Options that `headrace up` takes for each model, as fields of its source."""


def written(value: Any) -> str:
    """The value as environment and flags have it."""
    if isinstance(value, dict):
        return ",".join(f"{name}={part}" for name, part in value.items())
    return str(value).lower() if isinstance(value, bool) else str(value)


def flags_of(values: dict[str, Any]) -> list[str]:
    """Writes options as a user types them."""
    flags: list[str] = []
    for name, value in values.items():
        flag = name.replace("_", "-")
        flags += [f"--{'' if value else 'no-'}{flag}"] if isinstance(value, bool) else [f"--{flag}", written(value)]
    return flags


def chosen(flags: list[str]) -> dict[str, object]:
    """The options that the command line makes of flags."""
    found: list[dict[str, object]] = []
    app = App(result_action="return_value")

    @app.default
    def command(run: ModelFlags = NO_FLAGS) -> None:
        found.append(given(run))

    app(flags, exit_on_error=False)
    return found[0]


def file_of(folder: Path, values: dict[str, Any]) -> Path:
    path = folder / "headrace.toml"
    lines = [
        f"{name} = {json.dumps(value if isinstance(value, bool | int) else written(value))}"
        for name, value in values.items()
    ]
    path.write_text("\n".join(["[worker]", *lines]))
    return path


def seen_by_engine(
    monkeypatch: pytest.MonkeyPatch,
    source: ModelSource = SOURCE,
    environment: dict[str, str] | None = None,
    file: Path | None = None,
    options: dict[str, object] | None = None,
) -> EngineConfig:
    """The settings that reach the engine of a worker of `headrace up`."""
    found: list[EngineConfig] = []
    monkeypatch.setattr(loading, "load_engine", lambda _, config: found.append(config))
    spec = PlatformSpec([source], model_options=options or {}, config_file=file)
    load_engine(load(WorkerSettings, "worker", planned(spec)["worker-0"].arguments, environment or {}))
    return found[0]


def test_every_option_has_a_value_here() -> None:
    assert VALUES.keys() == EngineConfig.model_fields.keys()
    assert [name for name, value in VALUES.items() if EngineConfig.model_fields[name].default == value] == []


@pytest.mark.parametrize("name", [name for name in VALUES if name not in MODEL_BY_MODEL])
def test_a_flag_reaches_the_engine(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    options = chosen(flags_of({name: VALUES[name]}))
    assert options == {name: VALUES[name]}
    assert getattr(seen_by_engine(monkeypatch, options=options), name) == VALUES[name]


@pytest.mark.parametrize("name", MODEL_BY_MODEL)
def test_what_belongs_to_one_model_reaches_its_engine(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    parts: dict[str, Any] = {MODEL_BY_MODEL[name]: VALUES[name]}
    assert getattr(seen_by_engine(monkeypatch, ModelSource("m", Path("m"), **parts)), name) == VALUES[name]


@pytest.mark.parametrize("name", VALUES)
def test_the_environment_reaches_the_engine(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    environment = {f"HEADRACE_WORKER_{name.upper()}": written(VALUES[name])}
    assert getattr(seen_by_engine(monkeypatch, environment=environment), name) == VALUES[name]


@pytest.mark.parametrize("name", VALUES)
def test_the_file_reaches_the_engine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, name: str) -> None:
    assert getattr(seen_by_engine(monkeypatch, file=file_of(tmp_path, {name: VALUES[name]})), name) == VALUES[name]


@pytest.mark.parametrize("name", OTHERS)
def test_a_flag_wins_over_environment_and_that_over_the_file(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, name: str
) -> None:
    file = file_of(tmp_path, {name: VALUES[name]})
    environment = {f"HEADRACE_WORKER_{name.upper()}": written(OTHERS[name])}
    assert getattr(seen_by_engine(monkeypatch, environment=environment, file=file), name) == OTHERS[name]
    flagged = seen_by_engine(monkeypatch, environment=environment, file=file, options={name: VALUES[name]})
    assert getattr(flagged, name) == VALUES[name]


def test_nothing_is_passed_on_that_nobody_said() -> None:
    assert chosen([]) == {}
    worker = planned(PlatformSpec([SOURCE]))["worker-0"]
    process = {"service_id": "worker-0", "listen_address": "worker-0:1", "instance": 0}
    assert worker.settings == process | {"model": "m", "folder": Path("/nowhere/m")}
    assert worker.defaults == {"thread_count": 0}


def test_a_share_of_the_cores_is_only_a_default(tmp_path: Path) -> None:
    file = file_of(tmp_path, {"thread_count": 11})
    configured = planned(PlatformSpec([SOURCE], replicas=2, config_file=file))["worker-0"]
    assert load(WorkerSettings, "worker", configured.arguments, {}).thread_count == 11
    plain = planned(PlatformSpec([SOURCE], replicas=2))["worker-0"]
    assert load(WorkerSettings, "worker", plain.arguments, {}).thread_count == CORES // 2
