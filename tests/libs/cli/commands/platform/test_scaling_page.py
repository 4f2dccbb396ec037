"""The page of the demand shows what the leading scheduler of each model wants, and why."""

import json

import pytest

from headrace.cli.commands.platform.scaling_page import show_scaling
from headrace.v1.scheduler_pb2 import ModelDemand, ScalingDecision, WorkerNeed


def demand(model: str, fence: int, count: int, **fields: int) -> ModelDemand:
    need = WorkerNeed(signal="requests", worker_count=count, text="9 requests run or wait")
    change = ScalingDecision(age_seconds=130.0, former_count=1, new_count=count, reason="a burst", otherwise="[none]")
    found = ModelDemand(model=model, fence=fence, needs=[need], decisions=[change], start_seconds=4.2, **fields)
    found.wanted_worker_count = count
    return found


def test_the_leader_of_each_model_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    show_scaling([demand("b", 2, 3), demand("a", 1, 4), demand("b", 1, 8)], as_json=False)
    text = capsys.readouterr().out
    assert text.index("a: 4 wanted") < text.index("b: 3 wanted, 0 serving; a new one is ready in about 4 s")
    assert "8 wanted" not in text
    assert "3 for requests: 9 requests run or wait" in text
    assert "2 min" in text
    assert "1 → 3" in text
    assert "[none]" in text


def test_workers_that_are_unsure_are_named(capsys: pytest.CaptureFixture[str]) -> None:
    show_scaling([demand("a", 1, 4, worker_count=3, unsure_worker_count=1)], as_json=False)
    assert "4 wanted, 3 serving, 1 unsure" in capsys.readouterr().out


def test_a_model_of_which_nothing_is_known_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    show_scaling([ModelDemand(model="a")], as_json=False)
    show_scaling([], as_json=False)
    text = capsys.readouterr().out
    assert "a: unknown wanted" in text
    assert "No model is known yet" in text


def test_json_has_all_figures(capsys: pytest.CaptureFixture[str]) -> None:
    show_scaling([demand("a", 1, 4)], as_json=True)
    (found,) = json.loads(capsys.readouterr().out)["models"]
    assert (found["wanted_worker_count"], found["decisions"][0]["new_count"]) == (4, 4)
