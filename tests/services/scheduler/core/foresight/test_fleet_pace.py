"""A full fleet gets through work at the pace that its step times say."""

import pytest

from headrace.domain.step_times import StepTimes
from headrace.scheduler.core.fleet.fleet import Fleet
from headrace.scheduler.core.fleet.worker import WorkerReport
from headrace.scheduler.core.foresight.fleet_pace import FleetPace, measure_pace
from headrace.scheduler.core.queueing.work import Work


def report(name: str, times: StepTimes | None, slots: int = 10, blocks: int = 0) -> WorkerReport:
    return WorkerReport(
        name,
        epoch=1,
        version=1,
        model="m",
        credit_count=slots,
        block_size=16,
        block_count=blocks,
        prefill_rate=1000.0,
        step_seconds=0.01,
        step_times=times,
        step_token_limit=500,
    )


def pace_of(*reports: WorkerReport, usual: Work, now: float = 0.0) -> FleetPace:
    fleet = Fleet()
    for each in reports:
        fleet.take_report(each, answers=True, now=0.0)
    pace = measure_pace(fleet, usual, now)
    assert pace is not None
    return pace


def test_a_worker_shares_the_base_of_its_steps_out_among_what_it_runs() -> None:
    pace = pace_of(report("w", StepTimes(0.02, 0.0001, 0.001)), usual=Work(100, 50))
    # Ten sequences share 20 ms, and each adds one.
    assert pace.seconds(Work(100, 50)) == pytest.approx(100 * 0.0001 + 50 * (0.02 / 10 + 0.001))


def test_long_prompts_with_short_outputs_share_it_by_the_tokens_of_a_step() -> None:
    pace = pace_of(report("w", StepTimes(0.02, 0.0001, 0.001)), usual=Work(5000, 1))
    assert pace.seconds(Work(5000, 1)) == pytest.approx(5000 * 0.0001 + 10 * 0.02 + 0.001)


def test_a_small_cache_runs_fewer_at_once() -> None:
    usual, times = Work(100, 60), StepTimes(0.02, 0.0, 0.0)
    roomy, small = (pace_of(report("w", times, blocks=blocks), usual=usual) for blocks in (1000, 20))
    assert small.seconds(usual) == pytest.approx(5 * roomy.seconds(usual)), "two of 160 tokens fit 320"


def test_workers_add_up_by_what_each_gets_through() -> None:
    usual = Work(100, 50)
    fast, slow = StepTimes(0.01, 0.0001, 0.001), StepTimes(0.1, 0.001, 0.01)
    alone = pace_of(report("fast", fast), usual=usual)
    both = pace_of(report("fast", fast), report("slow", slow), usual=usual)
    assert 1 / both.seconds(usual) == pytest.approx(1.1 / alone.seconds(usual))
    assert both.least_first_token_seconds(100) == alone.least_first_token_seconds(100)


def test_before_steps_are_fitted_the_reported_rates_count() -> None:
    pace = pace_of(report("w", None), usual=Work(100, 50))
    assert pace.seconds(Work(100, 50)) == pytest.approx(0.1 + 50 * 0.001)


def test_silent_workers_do_nothing() -> None:
    fleet = Fleet()
    assert measure_pace(fleet, Work(100, 50), 0.0) is None
    fleet.take_report(report("w", None), answers=True, now=0.0)
    assert measure_pace(fleet, Work(100, 50), 60.0) is None
