"""The workers of a platform follow the demand, within bounds, and keep their numbers."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from headrace.launch.platform_spec import ModelSource, PlatformSpec
from headrace.launch.roster import Roster
from headrace.launch.worker_bounds import WorkerBounds
from headrace.supervisor.scaling.worker_scaling import SHOW_SECONDS, WorkerScaling

A, B = ModelSource("a", Path("/a")), ModelSource("b", Path("/b"))


class NotingPlatform:
    """Notes its workers."""

    def __init__(self, *models: ModelSource) -> None:
        self.spec = PlatformSpec(models)
        self.leaving_numbers = set[int]()
        self.gateway_starts = 0
        self.is_changing = False

    def resize(self, models: Sequence[ModelSource]) -> bool:
        if not self.is_changing:
            self.spec = replace(self.spec, models=models)
        return not self.is_changing

    @property
    def workers(self) -> dict[str, str]:
        return {worker.name: worker.model.name for worker in Roster.of(self.spec).workers if worker.model}


class NoDemand:
    """Is not asked."""

    async def ask(self) -> Mapping[str, int]:
        raise AssertionError

    async def close(self) -> None:
        raise AssertionError


class Stage:
    """A platform, and its scaling at a time that is set by hand."""

    def __init__(self, bounds: str, *models: ModelSource) -> None:
        self.now = 0.0
        self.platform = NotingPlatform(*models)
        self._scaling = WorkerScaling(self.platform, WorkerBounds.parse(bounds), NoDemand(), clock=lambda: self.now)
        self.now = SHOW_SECONDS + 1

    def scale(self, **wanted: int) -> dict[str, str]:
        self._scaling.scale(wanted)
        return self.platform.workers


def test_models_grow_and_shrink_and_the_others_keep_their_workers() -> None:
    stage = Stage("1:3", A, B)
    assert stage.scale(a=1, b=1) == {"worker-0": "a", "worker-1": "b"}
    assert stage.scale(a=2, b=1) == {"worker-0": "a", "worker-1": "b", "worker-2": "a"}
    assert stage.scale(a=2, b=9) == {
        "worker-0": "a",
        "worker-1": "b",
        "worker-2": "a",
        "worker-3": "b",
        "worker-4": "b",
    }
    assert stage.scale(a=0, b=1) == {"worker-0": "a", "worker-1": "b"}


def test_a_number_is_given_again_once_its_worker_has_left() -> None:
    stage = Stage("0:3", A)
    stage.platform.leaving_numbers = {1}
    assert stage.scale(a=2) == {"worker-0": "a", "worker-2": "a"}
    stage.platform.leaving_numbers = set()
    assert stage.scale(a=3) == {"worker-0": "a", "worker-1": "a", "worker-2": "a"}


def test_what_is_not_known_changes_nothing() -> None:
    stage = Stage("0:3", A)
    stage.scale(a=2)
    assert stage.scale() == {"worker-0": "a", "worker-1": "a"}


def test_none_may_be_left_and_one_comes_back() -> None:
    stage = Stage("0:1", A)
    assert stage.scale(a=0) == {}
    assert stage.scale(a=5) == {"worker-0": "a"}


def test_a_gateway_that_has_started_sees_a_worker_of_each_model() -> None:
    stage = Stage("0:1", A)
    stage.scale(a=0)
    stage.platform.gateway_starts += 1
    assert stage.scale(a=0) == {"worker-0": "a"}
    stage.now += SHOW_SECONDS + 1
    assert stage.scale(a=0) == {}


def test_a_platform_that_changes_is_scaled_later() -> None:
    stage = Stage("1:2", A)
    stage.platform.is_changing = True
    assert stage.scale(a=2) == {"worker-0": "a"}
    stage.platform.is_changing = False
    assert stage.scale(a=2) == {"worker-0": "a", "worker-1": "a"}


@pytest.mark.parametrize("wanted", [-5, 10**9])
def test_no_number_leaves_the_bounds(wanted: int) -> None:
    assert len(Stage("1:2", A).scale(a=wanted)) in {1, 2}
