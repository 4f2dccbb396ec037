"""Lines of a queue: a ticket that only some workers may get holds up no ticket of another line."""

from headrace.scheduler.core import events
from headrace.scheduler.core.core import SchedulingCore
from headrace.scheduler.core.decisions import Dispatch
from headrace.scheduler.core.fleet.worker import WorkerReport
from headrace.scheduler.core.policy import Policy
from headrace.scheduler.core.queueing.accounts import Accounts
from headrace.scheduler.core.queueing.queue import ModelQueue
from headrace.scheduler.core.queueing.ticket import Ticket
from headrace.scheduler.core.queueing.work import Work


def ticket(name: str, *allowed: str, adapter: str = "") -> Ticket:
    only = frozenset(allowed) if allowed else None
    return Ticket(name, 1, "m", "t", 0.0, 60.0, 10, 4, adapter=adapter, allowed=only)


def test_a_blocked_line_is_passed_over() -> None:
    queue = ModelQueue(Accounts(), starvation_seconds=30.0)
    bound, free, other = ticket("a", "w"), ticket("b"), ticket("c", adapter="x")
    for one in (bound, free, other):
        queue.enqueue(one, Work(10, 4))
    assert queue.next((), 0.0) is bound
    assert queue.next({bound.lane}, 0.0) is free
    assert queue.next({bound.lane, free.lane}, 0.0) is other
    assert queue.adapters == {"", "x"}
    queue.remove(bound)
    assert queue.next({free.lane, other.lane}, 0.0) is None


def test_a_ticket_that_waits_for_a_full_worker_holds_up_no_other() -> None:
    core = SchedulingCore(Policy(max_window_seconds=0.0))
    for name, credit_count in (("full", 0), ("free", 4)):
        core.handle(events.WorkerReported(WorkerReport(name, 1, 1, "m", credit_count), answers=True), 0.0)
    assert not any(isinstance(each, Dispatch) for each in core.handle(events.Submitted(ticket("a", "full")), 0.0))
    (sent,) = [each for each in core.handle(events.Submitted(ticket("b")), 0.0) if isinstance(each, Dispatch)]
    assert sent.worker_id == "free"
    report = WorkerReport("full", 1, 2, "m", credit_count=1)
    (late,) = [
        each for each in core.handle(events.WorkerReported(report, answers=True), 0.1) if isinstance(each, Dispatch)
    ]
    assert (late.worker_id, late.members[0].ticket.request_id) == ("full", "a")
