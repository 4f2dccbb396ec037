"""Metrics of the whole platform, from what workers and scheduler last said."""

import asyncio
import time
from collections import defaultdict
from collections.abc import Iterator

from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from headrace.gateway.fleet import Fleet
from headrace.gateway.ledger import Ledger
from headrace.v1.events_pb2 import SchedulerHeartbeatSent

STALE_SECONDS = 3.0


class PlatformMetrics(Collector):
    """Computed when asked, from any thread. A scheduler that is gone has no queue."""

    def __init__(self, fleet: Fleet, ledger: Ledger) -> None:
        self._fleet = fleet
        self._ledger = ledger
        self._loop = asyncio.get_running_loop()
        self._queues: dict[str, int] = {}
        self._queues_heard = 0.0

    def on_scheduler_heartbeat(self, event: SchedulerHeartbeatSent) -> None:
        self._queues = {queue.model: queue.waiting_count for queue in event.queues}
        self._queues_heard = time.monotonic()

    def collect(self) -> Iterator[Metric]:
        gauges = {
            "headrace_requests_running": ("Sequences in running batches", defaultdict[str, float](float)),
            "headrace_requests_waiting": ("Sequences waiting to run", self._waiting()),
            "headrace_requests_open": ("Requests accepted and not ended", self._open()),
            "headrace_kv_blocks_used": ("KV blocks held by live sequences", defaultdict[str, float](float)),
            "headrace_kv_blocks_total": ("KV blocks", defaultdict[str, float](float)),
            "headrace_worker_sessions": ("Sequences that workers hold state for", defaultdict[str, float](float)),
            "headrace_workers": ("Workers attached", defaultdict[str, float](float)),
        }
        for status in self._fleet.statuses:
            if not self._fleet.is_attached(status.worker_id):
                continue
            model = status.model_info.model
            gauges["headrace_requests_running"][1][model] += status.running_count
            gauges["headrace_requests_waiting"][1][model] += status.waiting_count
            gauges["headrace_kv_blocks_used"][1][model] += status.used_block_count
            gauges["headrace_kv_blocks_total"][1][model] += status.block_count
            gauges["headrace_worker_sessions"][1][model] += status.open_request_count
            gauges["headrace_workers"][1][model] += 1
        # Workers, blocks and running batches are a model's, whatever adapters its requests choose.
        models = [name for name, model in self._fleet.models().items() if not model.parent]
        for name, (text, values) in gauges.items():
            family = GaugeMetricFamily(name, text, labels=["model"])
            for model in {*models, *values}:
                family.add_metric([model], values.get(model, 0.0))
            yield family
        yield self._open_by_worker()
        task_count = len(asyncio.all_tasks(self._loop))
        yield GaugeMetricFamily("headrace_event_loop_tasks", "Tasks of the gateway", value=task_count)

    def _open_by_worker(self) -> Metric:
        family = GaugeMetricFamily(
            "headrace_worker_open_requests", "Sequences that one worker holds", labels=["model", "worker"]
        )
        for status in self._fleet.statuses:
            if self._fleet.is_attached(status.worker_id):
                family.add_metric([status.model_info.model, status.worker_id], status.open_request_count)
        return family

    def _waiting(self) -> defaultdict[str, float]:
        fresh = time.monotonic() - self._queues_heard < STALE_SECONDS
        return defaultdict(float, self._queues if fresh else {})

    def _open(self) -> defaultdict[str, float]:
        return defaultdict(float, self._ledger.open_counts())
