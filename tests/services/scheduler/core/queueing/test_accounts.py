"""Books keep what is open, and nothing of what is settled."""

import pytest

from headrace.scheduler.core.queueing import accounts as module
from headrace.scheduler.core.queueing.accounts import Accounts
from headrace.scheduler.core.queueing.ticket import Ticket
from headrace.scheduler.core.queueing.work import Work


def ticket(number: int) -> Ticket:
    return Ticket(f"r{number}", 1, "m", "t", 0.0, 10.0, 8, 8)


def test_settled_and_refunded_requests_leave_nothing() -> None:
    books = Accounts()
    books.enter("t")
    for number in range(1000):
        books.charge(ticket(number), Work(8, 8))
        if number % 2:
            charge = books.settle(f"r{number}", 4)
            assert charge is not None
            assert charge.ticket.tenant == "t"
        else:
            books.refund(ticket(number))
    kept = [getattr(books, name) for name in books.__slots__]
    assert sum(len(value) for value in kept if hasattr(value, "__len__")) == 1  # The tenant.


def test_requests_that_nobody_settles_are_forgotten_in_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_UNSETTLED", 10)
    books = Accounts()
    for number in range(100):
        books.charge(ticket(number), Work(8, 8))
    assert books.settle("r0", 4) is None
    assert books.settle("r99", 4) is not None
