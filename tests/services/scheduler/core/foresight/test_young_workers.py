"""Assumptions about a worker that has just started place a request, and refuse none."""

import pytest

from headrace.domain.step_times import StepTimes
from headrace.scheduler.core import decisions, events
from headrace.scheduler.core.core import SchedulingCore
from headrace.scheduler.core.fleet.worker import WorkerReport
from headrace.scheduler.core.policy import Policy
from headrace.scheduler.core.queueing.ticket import Ticket
from headrace.scheduler.core.queueing.urgency import Urgency

SLOW = StepTimes(0.1, 0.1, 0.1)


def refusals(times: StepTimes | None, step_token_limit: int = 512) -> list[decisions.Reject]:
    """Refusals of a request that would take minutes on its only worker, by what that tells of its steps, and has ten
    seconds."""
    core = SchedulingCore(Policy())
    report = WorkerReport(
        "w",
        1,
        1,
        "m",
        4,
        address="a",
        vocabulary_size=100,
        block_size=16,
        waiting_token_count=5000,
        prefill_rate=10.0,
        step_seconds=0.1,
        step_times=times,
        step_token_limit=step_token_limit,
    )
    core.handle(events.WorkerReported(report, answers=True), 0.0)
    core.handle(events.Tick(), 0.1)
    ticket = Ticket("r", 1, "m", "t", 0.1, 10.1, 8, 8, Urgency.INTERACTIVE)
    made = core.handle(events.Submitted(ticket), 0.1)
    return [each for each in made if isinstance(each, decisions.Reject)]


@pytest.mark.parametrize(("times", "limit", "count"), [(SLOW, 512, 1), (None, 512, 0), (None, 0, 1)])
def test_only_measured_steps_refuse(times: StepTimes | None, limit: int, count: int) -> None:
    """An endpoint that never tells its steps is judged by what was seen of it."""
    assert len(refusals(times, limit)) == count
