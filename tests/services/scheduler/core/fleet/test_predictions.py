"""Predictions are compared once, with what a request's first worker did."""

import pytest

from headrace.kv.held_prefix import NOTHING
from headrace.scheduler.core.fleet import predictions as predictions_module
from headrace.scheduler.core.fleet.candidate import Candidate
from headrace.scheduler.core.fleet.predictions import FirstToken, Predictions
from headrace.scheduler.core.queueing.ticket import Ticket

CHOSEN = Candidate("w", load=0, held=NOTHING, first_token_seconds=0.3, price=0.0)


def ticket(name: str = "r", attempt: int = 1) -> Ticket:
    return Ticket(name, attempt, "m", "t", 0.0, 60.0, prompt_token_count=10, max_token_count=4)


def test_both_times_and_the_error() -> None:
    predictions = Predictions()
    predictions.note(ticket(), CHOSEN)
    found = predictions.settle("r", 0.4)
    assert found == FirstToken("w", 0.3, 0.4)
    assert found.error == pytest.approx(0.25)
    assert predictions.settle("r", 0.4) is None


def test_without_a_token_or_a_prediction_there_is_nothing_to_compare() -> None:
    predictions = Predictions()
    predictions.note(ticket(), CHOSEN)
    assert predictions.settle("r", None) is None
    assert predictions.settle("unknown", 0.4) is None


def test_a_request_that_moved_is_not_compared() -> None:
    predictions = Predictions()
    predictions.note(ticket(), CHOSEN)
    predictions.note(ticket(attempt=2), CHOSEN)
    assert predictions.settle("r", 0.4) is None


def test_requests_that_are_never_settled_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(predictions_module, "MAX_OPEN", 2)
    predictions = Predictions()
    for name in "abc":
        predictions.note(ticket(name), CHOSEN)
    assert [predictions.settle(name, 0.3) is not None for name in "abc"] == [False, True, True]
