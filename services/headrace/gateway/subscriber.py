"""Everything the gateway receives over NATS: the state of workers, departures, lengths of queues, and other
gateways."""

import asyncio
import time

from headrace.bus import subjects
from headrace.bus.bus import Bus
from headrace.gateway.fleet.known_workers import KnownWorkers
from headrace.gateway.fleet.platform_metrics import PlatformMetrics
from headrace.gateway.fleet.translation import to_worker_facts
from headrace.gateway.peers.known_requests import KnownRequests
from headrace.gateway.peers.peers import Peers
from headrace.gateway.peers.translation import to_request_query, to_requests_told
from headrace.v1.events_pb2 import (
    RequestsAsked,
    RequestsTold,
    SchedulerHeartbeatSent,
    ServiceDeregistered,
    ServiceRegistered,
    WorkerHeartbeatSent,
)


class GatewaySubscriber:
    """Passes on what it receives, and knows since when it has been connected."""

    def __init__(self, bus: Bus) -> None:
        self._bus = bus
        self.connected_at: float | None = None
        """Time of the last connect, in monotonic seconds. None: there was none."""
        self._newly_connected = asyncio.Event()
        bus.on_connect(self._note_connect)

    @property
    def connected(self) -> bool:
        """Whether the bus is connected."""
        return self._bus.connected

    async def listen(self, workers: KnownWorkers, metrics: PlatformMetrics) -> None:
        """Subscribes."""

        def on_heartbeat(event: WorkerHeartbeatSent) -> None:
            workers.observe(to_worker_facts(event.status))

        def on_deregistered(event: ServiceDeregistered) -> None:
            workers.depart(event.service_id, event.epoch)

        def on_scheduler_heartbeat(event: SchedulerHeartbeatSent) -> None:
            counts = {queue.model: queue.waiting_count for queue in event.queues}
            metrics.observe_queues(counts, event.scheduler_id)

        await self._bus.subscribe(subjects.WORKER_HEARTBEAT, WorkerHeartbeatSent, on_heartbeat)
        await self._bus.subscribe(subjects.WORKER_DEREGISTERED, ServiceDeregistered, on_deregistered)
        await self._bus.subscribe(subjects.SCHEDULER_HEARTBEAT, SchedulerHeartbeatSent, on_scheduler_heartbeat)

    async def follow_registry(self, workers: KnownWorkers, peers: Peers) -> None:
        """Reads the registry after every connect until cancelled, instead of waiting for the heartbeat of each worker
        and of each other gateway."""
        while True:
            await self._newly_connected.wait()
            self._newly_connected.clear()
            registered = await self._bus.entries(ServiceRegistered)
            for gateway in (entry for entry in registered if entry.kind == "gateway"):
                peers.note(gateway.service_id)
            await workers.meet(entry.address for entry in registered if entry.kind == "worker")

    async def listen_to_peers(self, peers: Peers, requests: KnownRequests) -> None:
        """Follows which other gateways there are, and answers their questions."""

        def on_registered(event: ServiceRegistered) -> None:
            peers.note(event.service_id)

        def on_deregistered(event: ServiceDeregistered) -> None:
            peers.forget(event.service_id)

        def on_asked(event: RequestsAsked) -> RequestsTold | None:
            if event.gateway_id == peers.gateway_id:
                return None
            return to_requests_told(requests.of_this_gateway(to_request_query(event)), peers.gateway_id)

        await self._bus.subscribe(subjects.registered("gateway"), ServiceRegistered, on_registered)
        await self._bus.subscribe(subjects.deregistered("gateway"), ServiceDeregistered, on_deregistered)
        await self._bus.answer(subjects.REQUESTS_ASKED, RequestsAsked, on_asked)

    def _note_connect(self) -> None:
        self.connected_at = time.monotonic()
        self._newly_connected.set()
