"""Appointments follow the pace of the workers, corrected by what really ended."""

import pytest

from headrace.domain.step_times import StepTimes
from headrace.scheduler.core.foresight.fleet_pace import FleetPace
from headrace.scheduler.core.foresight.queue_drain import (
    MAX_RETRY_SECONDS,
    MIN_RETRY_SECONDS,
    UNKNOWN_SECONDS,
    QueueDrain,
)
from headrace.scheduler.core.queueing.work import Work

PACE = FleetPace(0.0, 0.01, StepTimes(0.01), 512, 0.01, 0.01)
SECOND = Work(0, 100)
"""Work that takes the fleet a second."""


@pytest.fixture
def drain() -> QueueDrain:
    found = QueueDrain()
    found.pace = PACE
    return found


def test_each_who_is_refused_gets_another_time(drain: QueueDrain) -> None:
    assert [drain.appointment(SECOND, 0.0, 10.0) for _ in range(3)] == [1, 2, 3]
    assert drain.appointment(SECOND, 0.0, 12.5) == pytest.approx(1.5)


def test_one_who_would_be_late_comes_back_when_so_much_has_drained(drain: QueueDrain) -> None:
    assert drain.appointment(SECOND, 7.0, 10.0) == 8
    assert drain.appointment(SECOND, 3.0, 10.0) == 9, "one after the other, however little the second was late"


def test_promises_end_with_the_queue(drain: QueueDrain) -> None:
    for _ in range(100):
        drain.appointment(SECOND, 0.0, 10.0)
    drain.forget_promises()
    assert drain.appointment(SECOND, 0.0, 10.0) == 1


def test_times_are_bounded(drain: QueueDrain) -> None:
    assert drain.appointment(Work(0, 1), 0.0, 10.0) == MIN_RETRY_SECONDS
    for _ in range(2000):
        last = drain.appointment(SECOND, 0.0, 10.0)
    assert last == MAX_RETRY_SECONDS


def test_workers_that_are_slower_than_they_say_are_believed_less(drain: QueueDrain) -> None:
    for number in range(20):
        drain.note_end(SECOND, 5, 2.0 * number)
    assert drain.wait_seconds(SECOND, 38.0) == pytest.approx(2.0, rel=0.1)


def test_ends_without_a_queue_say_nothing(drain: QueueDrain) -> None:
    for number in range(20):
        drain.note_end(SECOND, 0, 2.0 * number)
    assert drain.wait_seconds(SECOND, 38.0) == 1.0


def test_without_workers_a_second_is_as_good_as_any() -> None:
    assert QueueDrain().wait_seconds(SECOND, 0.0) == UNKNOWN_SECONDS
