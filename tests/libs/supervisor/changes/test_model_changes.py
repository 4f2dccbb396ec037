"""A platform serves what its file says, one change after the other, and what it cannot serve is noted there."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from headrace.demo_model import CHECKPOINT
from headrace.errors import ConfigError, Unavailable
from headrace.launch.platform_spec import ModelSource, PlatformSpec
from headrace.launch.roster import Roster
from headrace.served.loaded_adapter import LoadedAdapter
from headrace.served.loaded_source import LoadedSource
from headrace.served.served_file import FILE_NAME, ServedFile
from headrace.served.served_models import ServedModels
from headrace.supervisor.changes.model_changes import ModelChanges
from headrace.supervisor.changes.served_sources import ServedSources
from headrace.supervisor.changes.start import with_loaded

pytestmark = pytest.mark.anyio
DEMO = ModelSource("demo", CHECKPOINT)
SOURCE = LoadedSource(source=str(CHECKPOINT))


class NotingPlatform:
    """Notes what it serves, and cannot serve models of some names."""

    def __init__(self, spec: PlatformSpec, broken: Sequence[str] = ()) -> None:
        self.spec = spec
        self._broken = broken

    async def serve(self, models: Sequence[ModelSource]) -> None:
        if wrong := next((model.name for model in models if model.name in self._broken), None):
            raise Unavailable(f"{wrong} does not start")
        self.spec = replace(self.spec, models=models)

    async def pin(self, model: str, *, is_pinned: bool) -> None:
        if model in self._broken:
            raise Unavailable(f"{model} does not answer")
        others = [name for name in self.spec.pinned if name != model]
        self.spec = replace(self.spec, pinned=[*others, *([model] if is_pinned else [])])

    @property
    def workers(self) -> dict[str, str]:
        return {worker.name: worker.model.name for worker in Roster.of(self.spec).workers if worker.model}


class Stage:
    """A platform, its file and its changes."""

    def __init__(self, folder: Path, broken: Sequence[str] = (), **spec: Any) -> None:
        self.platform = NotingPlatform(PlatformSpec([DEMO], **spec), broken)
        self.file = ServedFile(folder / FILE_NAME)
        self._changes = ModelChanges(self.platform, ServedSources([DEMO]), self.file)

    async def make(self, served: ServedModels) -> ServedModels:
        self.file.change(lambda _: served)
        await self._changes.apply(served)
        return self.file.read()

    @property
    def served(self) -> ServedModels:
        return self.file.read()


def adapter(folder: Path, name: str) -> LoadedAdapter:
    (folder / name).mkdir()
    (folder / name / "adapter_config.json").write_text("{}")
    return LoadedAdapter(model="demo", source=str(folder / name))


async def test_workers_keep_their_names_while_models_come_and_go(tmp_path: Path) -> None:
    stage = Stage(tmp_path, replicas=2)
    await stage.make(stage.served.loading("a", SOURCE))
    await stage.make(stage.served.loading("b", SOURCE))
    assert list(stage.platform.workers.items()) == [
        *(("worker-0", "demo"), ("worker-1", "demo"), ("worker-2", "a"), ("worker-3", "a")),
        *(("worker-4", "b"), ("worker-5", "b")),
    ]
    await stage.make(stage.served.unloading("a"))
    assert stage.platform.workers == {"worker-0": "demo", "worker-1": "demo", "worker-4": "b", "worker-5": "b"}
    await stage.make(stage.served.loading("a", SOURCE))
    assert list(stage.platform.workers) == ["worker-0", "worker-1", "worker-4", "worker-5", "worker-6", "worker-7"]


async def test_an_adapter_gets_its_model_new_workers(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    await stage.make(stage.served.adapting("tuned", adapter(tmp_path, "tuned")))
    assert stage.platform.workers == {"worker-1": "demo"}
    assert list(stage.platform.spec.models[0].adapters) == ["tuned"]
    await stage.make(stage.served.unloading("tuned"))
    assert stage.platform.workers == {"worker-2": "demo"}
    assert not stage.platform.spec.models[0].adapters
    assert stage.served.unloaded == {"tuned"}


async def test_what_is_served_already_is_left_alone(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    await stage.make(stage.served.loading("a", SOURCE))
    before = stage.platform.spec
    await stage.make(stage.served.naming("alias", "a"))
    assert stage.platform.spec is before


async def test_what_cannot_be_loaded_is_refused_alone(tmp_path: Path) -> None:
    stage = Stage(tmp_path, broken=["bad"])
    served = stage.served.loading("bad", SOURCE).loading("gone", LoadedSource(source="/nowhere")).loading("a", SOURCE)
    made = await stage.make(served)
    assert set(made.refused) == {"bad", "gone"}
    assert made.refused["bad"] == "bad does not start"
    assert list(made.models) == ["a"]
    assert set(stage.platform.workers.values()) == {"demo", "a"}


async def test_a_model_whose_next_source_is_refused_keeps_the_one_before(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    await stage.make(stage.served.loading("a", SOURCE))
    made = await stage.make(stage.served.loading("a", LoadedSource(source="/nowhere")))
    assert list(made.refused) == ["a"]
    assert made.models["a"] == SOURCE
    assert stage.platform.workers == {"worker-0": "demo", "worker-1": "a"}


async def test_an_adapter_that_is_none_is_refused_and_its_model_stays(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    wrong = LoadedAdapter(model="demo", source=str(tmp_path))
    made = await stage.make(stage.served.adapting("wrong", wrong))
    assert list(made.refused) == ["wrong"]
    assert stage.platform.workers == {"worker-0": "demo"}
    assert not made.adapters


async def test_the_last_model_stays(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    made = await stage.make(stage.served.unloading("demo"))
    assert "only model" in made.refused["demo"]
    assert (made.leaving, made.unloaded) == (frozenset(), frozenset())
    assert stage.platform.workers == {"worker-0": "demo"}


@pytest.mark.parametrize("shape", [{"shared_worker": True}, {"prefill_workers": 1}])
async def test_models_that_share_workers_are_chosen_at_the_start(tmp_path: Path, shape: dict[str, Any]) -> None:
    stage = Stage(tmp_path, **shape)
    made = await stage.make(stage.served.loading("a", SOURCE))
    assert "headrace up" in made.refused["a"]
    assert not made.models


def test_a_start_serves_what_was_loaded_before(tmp_path: Path) -> None:
    file, spec, sources = ServedFile(tmp_path / FILE_NAME), PlatformSpec([DEMO]), ServedSources([DEMO])
    assert with_loaded(spec, sources, file, are_chosen=False) is spec
    file.change(lambda served: served.loading("a", SOURCE).loading("gone", LoadedSource(source="/nowhere")))
    assert [model.name for model in with_loaded(spec, sources, file, are_chosen=False).models] == ["demo", "a"]
    assert list(file.read().refused) == ["gone"]
    file.change(lambda served: served.unloading("demo").parted())
    assert [model.name for model in with_loaded(spec, sources, file, are_chosen=False).models] == ["a"]
    assert [model.name for model in with_loaded(spec, sources, file, are_chosen=True).models] == ["demo", "a"]
    assert file.read().applied == file.read().revision


def test_a_file_that_cannot_be_read_ends_the_start(tmp_path: Path) -> None:
    (tmp_path / FILE_NAME).write_text("{")
    with pytest.raises(ConfigError, match="cannot read the file of served models"):
        with_loaded(PlatformSpec([DEMO]), ServedSources([DEMO]), ServedFile(tmp_path / FILE_NAME), are_chosen=False)


async def test_a_model_that_has_no_worker_at_the_moment_keeps_having_none(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    stage.platform.spec = replace(stage.platform.spec, models=[replace(DEMO, worker_numbers=())])
    await stage.make(stage.served.loading("a", SOURCE))
    assert stage.platform.workers == {"worker-0": "a"}
    assert [model.name for model in stage.platform.spec.models] == ["demo", "a"]


@pytest.mark.parametrize("source", ["0" * 5000, "a\0b"])
async def test_a_source_that_can_be_no_file_is_refused(tmp_path: Path, source: str) -> None:
    stage = Stage(tmp_path)
    found = await stage.make(stage.served.loading("a", LoadedSource(source=source)))
    assert "a" in found.refused
    assert stage.platform.workers == {"worker-0": "demo"}


async def test_a_model_is_pinned_now_and_after_the_next_start(tmp_path: Path) -> None:
    stage = Stage(tmp_path, pinned=["demo"])
    assert (await stage.make(stage.served.pinning("demo", is_pinned=False))).refused == {}
    assert stage.platform.spec.pinned == []
    again = with_loaded(PlatformSpec([DEMO], pinned=["demo"]), ServedSources([DEMO]), stage.file, are_chosen=True)
    assert again.pinned == []
    await stage.make(stage.served.pinning("demo", is_pinned=True))
    again = with_loaded(PlatformSpec([DEMO]), ServedSources([DEMO]), stage.file, are_chosen=True)
    assert again.pinned == stage.platform.spec.pinned == ["demo"]


async def test_a_pin_of_a_model_that_is_not_served_any_more_is_no_setting(tmp_path: Path) -> None:
    """A shared worker refuses to start with such a one."""
    stage = Stage(tmp_path)
    await stage.make(stage.served.pinning("demo", is_pinned=True))
    other = ModelSource("other", CHECKPOINT)
    again = with_loaded(PlatformSpec([other]), ServedSources([other]), stage.file, are_chosen=True)
    assert ([model.name for model in again.models], again.pinned) == (["other"], [])


async def test_a_pin_that_a_worker_refuses_is_taken_back(tmp_path: Path) -> None:
    stage = Stage(tmp_path, broken=["demo"])
    found = await stage.make(stage.served.pinning("demo", is_pinned=True))
    assert (found.pins, found.refused) == ({}, {"demo": "demo does not answer"})
    assert stage.platform.spec.pinned == ()


async def test_a_model_that_is_unloaded_leaves_no_pin(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    await stage.make(stage.served.loading("a", SOURCE))
    await stage.make(stage.served.pinning("a", is_pinned=True))
    assert (await stage.make(stage.served.unloading("a"))).pins == {}
