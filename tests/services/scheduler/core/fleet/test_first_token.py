"""The time to a first token is that of the steps that come before it."""

from typing import Any

import pytest

from headrace.domain.step_times import StepTimes
from headrace.scheduler.core.fleet.first_token import first_token_seconds
from headrace.scheduler.core.fleet.worker import Worker, WorkerReport

TIMES = StepTimes(0.01, 1e-4, 1e-3, 1e-6)


def worker(**fields: Any) -> Worker:
    usual: dict[str, Any] = {"credit_count": 8, "block_size": 16, "step_times": TIMES, "step_token_limit": 512}
    return Worker(WorkerReport("w", 1, 1, "m", **(usual | fields)), last_heard=0.0, last_progress=0.0)


def test_an_idle_worker_takes_a_step_for_each_part_of_a_prompt() -> None:
    assert first_token_seconds(worker(), 100, now=5.0) == pytest.approx(0.01 + 100 * 1e-4)
    assert first_token_seconds(worker(), 1100, now=5.0) == pytest.approx(3 * 0.01 + 1100 * 1e-4)


def test_prompts_before_it_and_sequences_beside_it_count() -> None:
    """The step that runs reads 504 tokens beside 8 sequences; two more read the rest and the new prompt."""
    busy = worker(running_count=8, used_block_count=100, waiting_token_count=800)
    beside = 0.01 + 8e-3 + 1600e-6
    whole = beside + 504 * 1e-4
    rest = 2 * beside + (800 - 504 + 300) * 1e-4
    assert first_token_seconds(busy, 300, now=0.0) == pytest.approx(whole + rest)
    assert first_token_seconds(busy, 300, now=0.02) == pytest.approx(whole - 0.02 + rest), "the step has begun"
    assert first_token_seconds(busy, 300, now=9.0) == pytest.approx(rest), "a step that is late ends at any moment"


def test_steps_that_are_kept_short_beside_streams_read_less() -> None:
    """In 0.05 s there is room for 304 tokens beside eight sequences, so that 700 take three steps."""
    beside = 0.01 + 8e-3 + 1600e-6
    busy = worker(running_count=8, used_block_count=100, max_step_seconds=0.05)
    assert first_token_seconds(busy, 700, now=0.0) == pytest.approx(beside + 3 * beside + 700 * 1e-4)
    assert first_token_seconds(worker(max_step_seconds=0.05), 500, now=0.0) == pytest.approx(0.01 + 500 * 1e-4)


def test_prompts_on_the_way_and_a_wake_count() -> None:
    coming = worker(wait_seconds=0.7)
    coming.lend(200)
    assert first_token_seconds(coming, 100, now=0.0) == pytest.approx(0.7 + 0.01 + 300 * 1e-4)


def test_a_worker_that_measured_nothing_yet_is_balanced_by_its_sequences() -> None:
    busy, idle = (worker(step_times=None, running_count=count, open_count=count) for count in (5, 0))
    assert first_token_seconds(busy, 10, now=9.0) > 2 * first_token_seconds(idle, 10, now=9.0)
    assert busy.pressure > idle.pressure
