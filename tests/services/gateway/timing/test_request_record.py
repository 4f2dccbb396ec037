"""Stages of a request: the wait for its first token is divided by what scheduler and worker told."""

import pytest

from headrace.gateway.timing.request_record import RequestRecord
from headrace.gateway.timing.stopwatch import DISPATCH, LOST, PREFILL, QUEUE, TOKENIZE, WAIT, WORKER_QUEUE, Stopwatch


def record(**seconds: float) -> RequestRecord:
    made = RequestRecord(Stopwatch(), model="m", operation="chat")
    made.stopwatch.seconds.update(seconds)
    return made


def test_the_wait_is_divided_and_nothing_is_lost() -> None:
    made = record(**{TOKENIZE: 0.25, WAIT: 2.0})
    made.note_place("worker-0", 0.5)
    made.note_worker(0.125, 1.0)
    assert made.stages() == {TOKENIZE: 0.25, QUEUE: 0.5, DISPATCH: 0.375, WORKER_QUEUE: 0.125, PREFILL: 1.0}


def test_others_cannot_tell_of_more_time_than_there_was() -> None:
    """Their clocks measure what partly ran side by side."""
    made = record(**{WAIT: 1.0})
    made.note_place("worker-0", 0.75)
    made.note_worker(0.5, 9.0)
    assert made.stages() == {QUEUE: 0.75, DISPATCH: 0.0, WORKER_QUEUE: 0.25, PREFILL: 0.0}


def test_only_the_first_token_is_waited_for() -> None:
    made = record()
    made.note_place("worker-0", 0.0)
    made.note_tokens()
    made.note_worker(5.0, 5.0)
    made.note_place("worker-1", 5.0)
    assert made.stages()[PREFILL] == made.stages()[QUEUE] == 0.0
    assert made.worker_id == "worker-1"


def test_an_attempt_that_came_to_nothing_is_lost_time() -> None:
    made = record(**{WAIT: 2.0})
    made.note_attempt(2)
    assert made.stages()[LOST] >= 2.0
    assert WAIT not in made.stopwatch.seconds
    assert made.attempt_count == 2


@pytest.mark.parametrize(("worker", "stage"), [("", QUEUE), ("worker-0", PREFILL)])
def test_a_request_that_failed_was_in_a_stage_until_then(worker: str, stage: str) -> None:
    made = record(**{TOKENIZE: 0.25, WAIT: 3.0})
    made.worker_id = worker
    made.note_failure("deadline_exceeded")
    assert made.stages()[stage] >= 3.0
    assert made.outcome == "deadline_exceeded"


def test_speed_is_that_of_tokens_after_the_first() -> None:
    made = record()
    made.first_token, made.last_token = 10.0, 12.0
    made.output_token_count = 1
    assert made.output_token_seconds is None
    made.output_token_count = 5
    assert made.output_token_seconds == 0.5


def test_a_stream_has_its_first_token_once_it_is_written() -> None:
    made = record()
    made.is_stream = True
    made.note_flush()
    assert made.first_token_seconds is None
    made.note_tokens()
    made.note_flush()
    first = made.first_sent
    made.note_flush()
    assert first is not None
    assert made.first_sent == first
    assert made.first_token_seconds == first - made.stopwatch.started
