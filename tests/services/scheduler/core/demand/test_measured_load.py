"""Loads are the sums of what workers report, and a worker whose figures cannot be believed is unsure."""

import math
from dataclasses import replace

import pytest

from headrace.scheduler.core.demand.measured_load import measure_load
from headrace.scheduler.core.fleet.fleet import SILENCE_SECONDS, Fleet
from headrace.scheduler.core.fleet.worker import WorkerReport

REPORT = WorkerReport(
    "a",
    epoch=1,
    version=1,
    model="m",
    credit_count=6,
    open_count=2,
    block_size=16,
    block_count=100,
    used_block_count=30,
    waiting_token_count=50,
    prefill_rate=1000.0,
    step_seconds=0.02,
    hourly_price=3.0,
)


def fleet_of(*reports: WorkerReport) -> Fleet:
    fleet = Fleet()
    for report in reports:
        fleet.take_report(report, answers=True, now=0.0)
    return fleet


def test_work_is_added_up_and_capacity_is_that_of_one_worker() -> None:
    other = replace(REPORT, worker_id="b", credit_count=10, block_count=300, prefill_rate=3000.0)
    load = measure_load(fleet_of(REPORT, other), 7, 900, now=0.0)
    assert (load.waiting_count, load.running_count, load.waiting_token_count) == (7, 4, 1000)
    assert (load.used_block_count, load.worker_count, load.unsure_count) == (60, 2, 0)
    assert load.capacity is not None
    assert (load.capacity.slot_count, load.capacity.block_count, load.capacity.prefill_rate) == (10, 200, 2000.0)


def test_a_worker_that_accepts_none_for_now_keeps_its_places() -> None:
    fleet = fleet_of(REPORT)
    fleet.take_report(replace(REPORT, version=2, credit_count=0), answers=True, now=0.0)
    capacity = measure_load(fleet, 0, 0, now=0.0).capacity
    assert capacity is not None
    assert capacity.slot_count == 8


def test_a_rate_that_only_some_have_measured_is_theirs() -> None:
    capacity = measure_load(fleet_of(REPORT, replace(REPORT, worker_id="b", prefill_rate=0.0)), 0, 0, 0.0).capacity
    assert capacity is not None
    assert capacity.prefill_rate == 1000.0


def test_a_worker_that_has_only_proved_its_model_does_not_make_the_others_slow() -> None:
    used, new = replace(REPORT, computed_token_count=9000), replace(REPORT, worker_id="b", prefill_rate=20.0)
    capacity = measure_load(fleet_of(new, used), 0, 0, 0.0).capacity
    assert capacity is not None
    assert capacity.prefill_rate == 1000.0
    wrong = replace(used, worker_id="c", prefill_rate=math.inf)
    capacity = measure_load(fleet_of(wrong, new, used), 0, 0, 0.0).capacity
    assert capacity is not None
    assert capacity.prefill_rate == 1000.0, "a figure that cannot be is nobody's pace"


@pytest.mark.parametrize(
    "figures",
    [
        {"prefill_rate": math.nan},
        {"step_seconds": math.inf},
        {"hourly_price": -1.0},
        {"open_count": -3},
        {"used_block_count": -1},
    ],
)
def test_figures_that_cannot_be_make_a_worker_unsure(figures: dict[str, float]) -> None:
    wrong = replace(REPORT, worker_id="b", **figures)  # type: ignore[arg-type]
    load = measure_load(fleet_of(REPORT, wrong), 0, 0, now=0.0)
    assert (load.worker_count, load.unsure_count, load.running_count) == (1, 1, 2)


def test_a_silent_or_suspect_worker_is_unsure_and_its_work_counts() -> None:
    fleet = fleet_of(REPORT, replace(REPORT, worker_id="b"))
    fleet.suspect("b", epoch=1)
    assert measure_load(fleet, 0, 0, now=0.0).unsure_count == 1
    load = measure_load(fleet, 0, 0, now=SILENCE_SECONDS + 0.1)
    assert (load.worker_count, load.unsure_count, load.running_count) == (0, 2, 4)


def test_a_worker_that_leaves_is_neither_counted_nor_unsure_and_its_work_still_is() -> None:
    fleet = fleet_of(REPORT, replace(REPORT, worker_id="b", draining=True))
    load = measure_load(fleet, 0, 0, now=SILENCE_SECONDS + 0.1)
    assert (load.worker_count, load.unsure_count, load.running_count) == (0, 1, 4)


def test_workers_that_compute_prompts_for_others_are_left_out() -> None:
    load = measure_load(fleet_of(replace(REPORT, is_prefill=True)), 0, 0, now=0.0)
    assert (load.worker_count, load.running_count, load.capacity) == (0, 0, None)
