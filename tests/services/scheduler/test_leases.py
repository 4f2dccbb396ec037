"""One scheduler leads a model at a time; another takes over when its lease runs out, under a larger number."""

from typing import Any

import pytest

from headrace.bus.memory_bus import MemoryBus
from headrace.errors import Unavailable
from headrace.scheduler.core import events
from headrace.scheduler.core.core import SchedulingCore
from headrace.scheduler.core.fleet.worker import WorkerReport
from headrace.scheduler.core.journal import Journal
from headrace.scheduler.core.policy import Policy
from headrace.scheduler.leases import EXPIRY_SECONDS, Leases
from headrace.scheduler.scheduler import Scheduler
from headrace.v1.events_pb2 import LeaseHeld

pytestmark = pytest.mark.anyio


class Clock:
    """Time that passes when told."""

    def __init__(self) -> None:
        self.now = 50.0

    def __call__(self) -> float:
        return self.now


class Candidate:
    """A scheduler with its leases, on a bus that it shares with others."""

    def __init__(self, bus: MemoryBus, name: str, clock: Clock) -> None:
        no_client: Any = None
        self.scheduler = Scheduler(SchedulingCore(Policy()), Journal(), no_client, 1.0, clock)
        self.leases = Leases(bus, self.scheduler, name, clock)

    async def renew(self) -> None:
        await self.leases._renew("m")


@pytest.fixture
async def trio() -> tuple[MemoryBus, Clock, Candidate, Candidate]:
    bus, clock = MemoryBus(), Clock()
    return bus, clock, Candidate(bus, "s0", clock), Candidate(bus, "s1", clock)


Trio = tuple[MemoryBus, Clock, Candidate, Candidate]


async def test_the_first_who_is_asked_leads_and_the_second_names_it(trio: Trio) -> None:
    _, _, first, second = trio
    await first.leases.lead("m")
    assert first.leases.fence("m") == 1
    with pytest.raises(Unavailable) as refused:
        await second.leases.lead("m")
    assert refused.value.details == {"leader": "s0"}
    assert second.leases.fence("m") == 0


async def test_a_lease_that_is_renewed_stays_and_one_that_is_not_is_taken_over(trio: Trio) -> None:
    _, clock, first, second = trio
    await first.leases.lead("m")
    with pytest.raises(Unavailable):
        await second.leases.lead("m")
    clock.now += EXPIRY_SECONDS + 0.1
    await first.renew()
    with pytest.raises(Unavailable):
        await second.leases.lead("m")
    clock.now += EXPIRY_SECONDS + 0.1
    await second.leases.lead("m")
    assert second.leases.fence("m") == 2


async def test_who_looks_on_takes_over_as_soon_as_the_last_renewal_is_old(trio: Trio) -> None:
    _, clock, first, second = trio
    await first.leases.lead("m")
    second.scheduler.core.desk("m")
    await second.leases.look_on()
    clock.now += 1.0
    await first.renew()
    await second.leases.look_on()
    clock.now += EXPIRY_SECONDS - 0.1
    with pytest.raises(Unavailable):
        await second.leases.lead("m")
    clock.now += 0.2
    await second.leases.lead("m")
    assert second.leases.fence("m") == 2


async def test_who_lost_the_lead_dismisses_those_who_wait(trio: Trio) -> None:
    _, clock, first, second = trio
    await first.leases.lead("m")
    with pytest.raises(Unavailable):
        await second.leases.lead("m")
    clock.now += EXPIRY_SECONDS + 0.1
    await second.leases.lead("m")
    lost: list[events.Event] = []
    first.scheduler.feed = lost.append  # type: ignore[assignment, method-assign]
    await first.renew()
    assert lost == [events.LeadLost("m")]
    assert first.leases.fence("m") == 0


async def test_an_empty_store_is_claimed_again_under_a_larger_number_than_any_worker_has_seen(trio: Trio) -> None:
    bus, _, first, _ = trio
    await first.leases.lead("m")
    first.scheduler.feed(events.WorkerReported(WorkerReport("w", 1, 1, "m", 4, fence=7)))
    bus._swapped.clear()
    await first.renew()
    assert first.leases.fence("m") == 8


async def test_a_renewal_whose_answer_was_lost_costs_nothing(trio: Trio) -> None:
    bus, _, first, _ = trio
    await first.leases.lead("m")
    (key,) = [key for _, key in bus._swapped]
    assert await bus.swap(key, LeaseHeld(scheduler_id="s0", model="m", fence=1), 1) == 2
    for revision in (2, 3):
        await first.renew()
        assert first.leases.fence("m") == 1
        assert bus._revision == revision


async def test_without_a_store_the_model_is_led_without_a_lease(trio: Trio) -> None:
    bus, _, first, _ = trio
    bus.disconnect()
    await first.leases.lead("m")
    assert first.leases.leads("m")
    assert first.leases.fence("m") == 0


async def test_a_store_that_is_lost_does_not_cost_the_lead(trio: Trio) -> None:
    bus, clock, first, _ = trio
    await first.leases.lead("m")
    bus.disconnect()
    clock.now += 100
    assert first.leases.fence("m") == 1
