"""Requests are late for what their class is refused for, and never for what no worker could do."""

from dataclasses import replace

import pytest

from headrace.scheduler.core.foresight.lateness import Expectation, excess_seconds, is_in_time
from headrace.scheduler.core.foresight.refusal_terms import RefusalTerms
from headrace.scheduler.core.queueing.ticket import Ticket
from headrace.scheduler.core.queueing.urgency import Urgency

BOTH = RefusalTerms(late=frozenset({Urgency.INTERACTIVE}))


def ticket(urgency: Urgency = Urgency.INTERACTIVE, wanted: float | None = None) -> Ticket:
    return Ticket("r", 1, "m", "t", 0.0, 10.0, 8, 8, urgency, first_token_seconds=wanted)


@pytest.mark.parametrize(
    ("urgency", "wanted", "expected", "excess"),
    [
        (Urgency.INTERACTIVE, None, Expectation(1.5, 1.0, 0.1), 0.0),
        (Urgency.INTERACTIVE, None, Expectation(5.0, 1.0, 0.1), 3.0),
        (Urgency.INTERACTIVE, 4.0, Expectation(5.0, 1.0, 0.1), 1.0),
        (Urgency.INTERACTIVE, None, Expectation(5.0, 1.0, 2.5), 0.0),
        (Urgency.INTERACTIVE, None, Expectation(9.5, 2.0, 2.5), 1.5),
        (Urgency.DEFAULT, 1.0, Expectation(5.0, 1.0, 0.1), 0.0),
        (Urgency.DEFAULT, None, Expectation(9.5, 2.0, 0.1), 1.5),
        (Urgency.DEFAULT, None, Expectation(9.5, 12.0, 0.1), 0.0),
        (Urgency.BATCH, None, Expectation(50.0, 12.0, 0.1), 0.0),
    ],
)
def test_excess(urgency: Urgency, wanted: float | None, expected: Expectation, excess: float) -> None:
    one = ticket(urgency, wanted)
    assert (excess_seconds(one, expected, BOTH, 0.0) if BOTH.concern(one) else 0.0) == pytest.approx(excess)


@pytest.mark.parametrize(("name", "may_be"), [("a.1f-0", True), ("a.1f-12", False), ("a.1f-10", False), ("r", True)])
def test_only_the_first_output_of_a_request_may_be_refused(name: str, may_be: bool) -> None:
    assert BOTH.concern(replace(ticket(), request_id=name)) is may_be


def test_one_that_had_a_place_may_not() -> None:
    assert not BOTH.concern(replace(ticket(), resumes=True))


def test_who_is_in_time_for_all_that_was_asked_for_is_in_time() -> None:
    assert is_in_time(ticket(), 1.0, 9.0, BOTH, 0.0)
    assert not is_in_time(ticket(), 1.0, 9.1, BOTH, 0.0), "it may not end before its deadline"
    assert not is_in_time(ticket(), 2.1, 1.0, BOTH, 0.0), "its first token may be late"
    assert is_in_time(ticket(), 2.1, 1.0, RefusalTerms(), 0.0), "which is no reason by itself"
