"""The scheduler finds workers by their heartbeats and in the registry, and tells its queues as soon as it can."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from headrace.bus import subjects
from headrace.bus.memory_bus import MemoryBus
from headrace.lifecycle import AddressBook
from headrace.scheduler import publisher
from headrace.scheduler.core.core import SchedulingCore
from headrace.scheduler.core.journal import Journal
from headrace.scheduler.core.policy import Policy
from headrace.scheduler.publisher import SchedulerPublisher
from headrace.scheduler.scheduler import Scheduler
from headrace.scheduler.subscriber import SchedulerSubscriber
from headrace.v1.events_pb2 import (
    SchedulerHeartbeatSent,
    ServiceDeregistered,
    ServiceRegistered,
    WorkerHeartbeatSent,
)
from headrace.v1.scheduler_pb2 import ModelQueue
from headrace.v1.worker_pb2 import WorkerStatus

pytestmark = pytest.mark.anyio
NO_CLIENTS: Any = None
TIMEOUT = 10.0


def idle_scheduler() -> Scheduler:
    return Scheduler(SchedulingCore(Policy()), Journal(), NO_CLIENTS, 1.0)


class Watches:
    """Remembers the addresses that are to be watched."""

    def __init__(self) -> None:
        self.met: asyncio.Queue[str] = asyncio.Queue()

    def meet(self, address: str) -> None:
        self.met.put_nowait(address)


class Ears:
    """A subscriber, and what came of what it heard."""

    def __init__(self) -> None:
        self.bus, self.watches, self.book = MemoryBus(), Watches(), AddressBook(None)
        watches: Any = self.watches
        self.scheduler = idle_scheduler()
        self.subscriber = SchedulerSubscriber(self.bus, self.scheduler, watches, self.book, "scheduler")

    async def hear(self, scheduler_id: str, fence: int, count: int | None = None) -> int | None:
        """Passes on what a scheduler wants, and returns what this one wants then."""
        queue = ModelQueue(model="m", fence=fence, wanted_worker_count=count)
        event = SchedulerHeartbeatSent(scheduler_id=scheduler_id, queues=[queue])
        await self.bus.publish(subjects.of(subjects.SCHEDULER_HEARTBEAT, scheduler_id), event)
        return self.scheduler.core.desk("m").demand.wanted


@pytest.fixture
async def ears() -> AsyncIterator[Ears]:
    made = Ears()
    await made.subscriber.listen()
    following = asyncio.create_task(made.subscriber.follow_registry())
    yield made
    following.cancel()
    await asyncio.gather(following, return_exceptions=True)


async def test_a_worker_is_met_at_its_heartbeat_and_kept_until_it_leaves(ears: Ears) -> None:
    status = WorkerStatus(worker_id="w", epoch=1, address="here")
    await ears.bus.publish(subjects.of(subjects.WORKER_HEARTBEAT, "w"), WorkerHeartbeatSent(status=status))
    assert ears.watches.met.get_nowait() == "here"
    assert ears.book._addresses == {"w": "here"}
    await ears.bus.publish(subjects.of(subjects.WORKER_DEREGISTERED, "w"), ServiceDeregistered(service_id="w"))
    assert not ears.book._addresses


async def test_registered_workers_are_met_after_every_connect(ears: Ears) -> None:
    await ears.bus.put("w", ServiceRegistered(service_id="w", kind="worker", address="here"))
    await ears.bus.put("c", ServiceRegistered(service_id="c", kind="cache", address="elsewhere"))
    for _ in range(2):
        ears.bus.disconnect()
        ears.bus.reconnect()
        async with asyncio.timeout(TIMEOUT):
            assert await ears.watches.met.get() == "here"
    assert ears.watches.met.empty()


async def test_workers_are_wanted_as_the_scheduler_wants_them_that_leads_the_model(ears: Ears) -> None:
    assert await ears.hear("other", fence=0, count=4) is None
    assert await ears.hear("other", fence=3) is None
    assert await ears.hear("other", fence=3, count=4) == 4
    ears.scheduler.fence_of = lambda _model: 5
    assert await ears.hear("other", fence=3, count=9) == 4
    assert await ears.hear("scheduler", fence=9, count=9) == 4


async def test_queues_are_told_at_once_after_a_connect(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(publisher, "INTERVAL", 60.0)
    bus, heard = MemoryBus(), asyncio.Queue[SchedulerHeartbeatSent]()
    await bus.subscribe(subjects.SCHEDULER_HEARTBEAT, SchedulerHeartbeatSent, heard.put_nowait)
    beating = asyncio.create_task(SchedulerPublisher(bus, idle_scheduler(), "s").beat())
    async with asyncio.timeout(TIMEOUT):
        assert (await heard.get()).scheduler_id == "s"
        bus.disconnect()
        bus.reconnect()
        assert (await heard.get()).scheduler_id == "s"
    beating.cancel()
    await asyncio.gather(beating, return_exceptions=True)
