"""Everything the gateway hears over NATS: the state of workers, their departures, and the lengths of queues."""

import time

from headrace.bus import subjects
from headrace.bus.bus import Bus
from headrace.gateway.fleet.known_workers import KnownWorkers
from headrace.gateway.fleet.platform_metrics import PlatformMetrics
from headrace.gateway.fleet.translation import to_worker_facts
from headrace.v1.events_pb2 import SchedulerHeartbeatSent, ServiceDeregistered, WorkerHeartbeatSent


class GatewaySubscriber:
    """Passes on what it hears, and knows since when it has been connected."""

    def __init__(self, bus: Bus) -> None:
        self._bus = bus
        self.connected_at: float | None = None
        """Time of the last connect, in monotonic seconds. None: there was none."""
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

    def _note_connect(self) -> None:
        self.connected_at = time.monotonic()
