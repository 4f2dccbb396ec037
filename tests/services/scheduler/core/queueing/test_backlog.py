"""Work that waits is known by class, and a tenant's turn by what it has waiting."""

import random

import pytest

from headrace.scheduler.core.queueing.backlog import Backlog
from headrace.scheduler.core.queueing.ticket import Ticket
from headrace.scheduler.core.queueing.urgency import Urgency
from headrace.scheduler.core.queueing.work import Work


def ticket(name: str, tenant: str = "t", urgency: Urgency = Urgency.DEFAULT, weight: float = 1.0) -> Ticket:
    return Ticket(name, 1, "m", tenant, 0.0, 10.0, 8, 8, urgency, weight)


def test_only_what_is_as_urgent_goes_before() -> None:
    backlog = Backlog()
    for number, urgency in enumerate((Urgency.REALTIME, Urgency.DEFAULT, Urgency.BATCH)):
        backlog.add(ticket(f"r{number}", urgency=urgency), Work(100 * 10**number, 10**number))
    new = Work(1, 1)
    assert backlog.before(ticket("x", urgency=Urgency.REALTIME), new) == Work(100, 1)
    assert backlog.before(ticket("x", urgency=Urgency.DEFAULT), new) == Work(1100, 11)
    assert backlog.before(ticket("x", urgency=Urgency.BATCH), new) == Work(11100, 111)
    assert backlog.whole() == Work(11100, 111)


def test_a_tenant_with_little_waits_for_little_of_what_another_has() -> None:
    backlog = Backlog()
    for number in range(100):
        backlog.add(ticket(f"a{number}", "crowd"), Work(90, 10))
    assert backlog.before(ticket("x", "crowd"), Work(90, 10)) == Work(9000, 1000)
    light = backlog.before(ticket("x", "light"), Work(90, 10))
    assert light.prompt_tokens == pytest.approx(90)
    heavy = backlog.before(ticket("x", "light", weight=0.1), Work(90, 10))
    assert heavy.prompt_tokens == pytest.approx(900), "a tenth of the share waits ten times as long"


def test_nothing_is_left_of_what_left() -> None:
    backlog, chance = Backlog(), random.Random(1)
    waiting = [ticket(f"r{number}", f"t{number % 5}", chance.choice(list(Urgency))) for number in range(500)]
    for one in waiting:
        backlog.add(one, Work(chance.random(), chance.random()))
    chance.shuffle(waiting)
    for one in waiting:
        backlog.remove(one)
    assert backlog.whole() == Work()
    assert backlog.before(ticket("x", urgency=Urgency.BATCH), Work(1, 1)) == Work()
