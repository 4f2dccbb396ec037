"""Everything heard over the bus reaches the one that needs it, as data of the gateway."""

import asyncio
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from headrace.bus import subjects
from headrace.bus.memory_bus import MemoryBus
from headrace.gateway.fleet.known_workers import KnownWorkers
from headrace.gateway.fleet.model_facts import ModelFacts
from headrace.gateway.fleet.worker_facts import WorkerFacts
from headrace.gateway.peers.peers import Peers
from headrace.gateway.subscriber import GatewaySubscriber
from headrace.v1.events_pb2 import SchedulerHeartbeatSent, ServiceDeregistered, ServiceRegistered, WorkerHeartbeatSent
from headrace.v1.generation_pb2 import ModelInfo
from headrace.v1.scheduler_pb2 import ModelQueue
from headrace.v1.worker_pb2 import WorkerStatus

pytestmark = pytest.mark.anyio


class Listener:
    """Stand-in for fleet and metrics that records their calls."""

    def __init__(self) -> None:
        self.told: list[Any] = []

    def observe(self, worker: WorkerFacts) -> None:
        self.told.append(worker)

    def depart(self, worker_id: str, epoch: int) -> None:
        self.told.append((worker_id, epoch))

    def observe_queues(self, waiting_counts: dict[str, int], scheduler_id: str) -> None:
        self.told.append((scheduler_id, waiting_counts))


async def test_what_is_heard_is_passed_on(tmp_path: Path) -> None:
    bus, listener = MemoryBus(), Listener()
    workers = KnownWorkers(listener, open_worker=None, path=tmp_path / "workers.json")  # type: ignore[arg-type]
    await GatewaySubscriber(bus).listen(workers, listener)  # type: ignore[arg-type]
    status = WorkerStatus(worker_id="w", epoch=1, address="a:1", model_info=ModelInfo(model="m"))
    await bus.publish(subjects.of(subjects.WORKER_HEARTBEAT, "w"), WorkerHeartbeatSent(status=status))
    queues = SchedulerHeartbeatSent(scheduler_id="s", queues=[ModelQueue(model="m", waiting_count=3)])
    await bus.publish(subjects.of(subjects.SCHEDULER_HEARTBEAT, "s"), queues)
    gone = ServiceDeregistered(service_id="w", epoch=1)
    await bus.publish(subjects.of(subjects.WORKER_DEREGISTERED, "w"), gone)
    assert listener.told == [WorkerFacts("w", ModelFacts("m"), address="a:1", epoch=1), ("s", {"m": 3}), ("w", 1)]


class Meeting:
    """Notes at which addresses workers are to be met."""

    def __init__(self) -> None:
        self.met: asyncio.Queue[list[str]] = asyncio.Queue()

    async def meet(self, addresses: Iterable[str]) -> None:
        self.met.put_nowait(list(addresses))


async def test_registered_workers_are_met_after_every_connect() -> None:
    """A gateway that starts after its workers would otherwise wait for their next heartbeats."""
    bus, meeting = MemoryBus(), Meeting()
    await bus.put("w", ServiceRegistered(service_id="w", kind="worker", address="here"))
    await bus.put("c", ServiceRegistered(service_id="c", kind="cache", address="elsewhere"))
    peers = Peers("gateway", ask=None)  # type: ignore[arg-type]
    following = asyncio.create_task(GatewaySubscriber(bus).follow_registry(meeting, peers))  # type: ignore[arg-type]
    for _ in range(2):
        bus.disconnect()
        bus.reconnect()
        async with asyncio.timeout(5):
            assert await meeting.met.get() == ["here"]
    following.cancel()


async def test_other_gateways_are_known_once_the_registry_is_read() -> None:
    """A request that reaches a gateway before another one's next heartbeat would otherwise be told less."""
    bus, meeting = MemoryBus(), Meeting()
    for name in ("gateway", "gateway-1"):
        await bus.put(name, ServiceRegistered(service_id=name, kind="gateway"))
    await bus.put("c", ServiceRegistered(service_id="c", kind="cache"))
    peers = Peers("gateway", ask=None)  # type: ignore[arg-type]
    following = asyncio.create_task(GatewaySubscriber(bus).follow_registry(meeting, peers))  # type: ignore[arg-type]
    bus.disconnect()
    bus.reconnect()
    async with asyncio.timeout(5):
        await meeting.met.get()
    assert peers.names == ["gateway-1"]
    following.cancel()


def test_it_knows_since_when_it_hears_anything() -> None:
    bus = MemoryBus()
    bus.disconnect()
    subscriber = GatewaySubscriber(bus)
    assert (subscriber.connected, subscriber.connected_at) == (False, None)
    before = time.monotonic()
    bus.reconnect()
    assert subscriber.connected
    assert subscriber.connected_at is not None
    assert before <= subscriber.connected_at <= time.monotonic()
