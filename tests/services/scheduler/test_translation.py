"""Rejections become errors that say when to come back."""

import pytest

from headrace.errors import HeadraceError, Overloaded, Unavailable
from headrace.scheduler.core.decisions import Reason, Reject
from headrace.scheduler.core.queueing.ticket import Ticket
from headrace.scheduler.translation import to_error


@pytest.mark.parametrize(
    ("reason", "kind"),
    [
        (Reason.QUEUE_FULL, Overloaded),
        (Reason.DISPLACED, Overloaded),
        (Reason.LATE, Overloaded),
        (Reason.NO_WORKER, Unavailable),
        (Reason.NO_ADAPTER, Unavailable),
    ],
)
def test_each_reason_is_told_with_the_time_to_come_back(reason: Reason, kind: type[HeadraceError]) -> None:
    error = to_error(Reject(Ticket("r", 1, "m", "t", 0.0, 10.0, 8, 8, adapter="a"), reason, 1.23456))
    assert type(error) is kind
    assert (error.retry_after, error.details["reason"]) == (1.235, reason.value)
    assert " m" in error.message
