"""Metrics of the whole platform, from the last reports of workers and schedulers."""

import asyncio
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from headrace.gateway.fleet.fleet import Fleet
from headrace.gateway.request.ledger import Ledger

STALE_SECONDS = 3.0
PER_WORKER: tuple[tuple[type[GaugeMetricFamily | CounterMetricFamily], str, str, str], ...] = (
    (GaugeMetricFamily, "headrace_worker_open_requests", "Sequences that one worker holds", "open_request_count"),
    (GaugeMetricFamily, "headrace_memory_weights_bytes", "Memory of the weights", "weight_byte_count"),
    (GaugeMetricFamily, "headrace_memory_kv_bytes", "Memory of the KV cache, used or not", "kv_byte_count"),
    (GaugeMetricFamily, "headrace_memory_resident_bytes", "Main memory of the process", "resident_byte_count"),
    (CounterMetricFamily, "headrace_draft_tokens", "Tokens that were drafted", "draft_token_count"),
    (CounterMetricFamily, "headrace_accepted_tokens", "Drafts that were right", "accepted_token_count"),
)
"""Type, name and meaning of each per-worker metric, and the field of WorkerFacts that holds its value."""


class PlatformMetrics(Collector):
    """Computes the metrics on demand, from any thread. A scheduler that is gone has no queue."""

    def __init__(self, fleet: Fleet, ledger: Ledger) -> None:
        self._fleet = fleet
        self._ledger = ledger
        self._loop = asyncio.get_running_loop()
        self._queues: Mapping[str, int] = {}
        self._queues_heard = 0.0

    def observe_queues(self, waiting_counts: Mapping[str, int]) -> None:
        """Takes in a scheduler's number of waiting sequences, by model."""
        self._queues = waiting_counts
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
        for worker in self._fleet.workers:
            if not self._fleet.is_attached(worker.worker_id):
                continue
            model = worker.model.model
            gauges["headrace_requests_running"][1][model] += worker.running_count
            gauges["headrace_requests_waiting"][1][model] += worker.waiting_count
            gauges["headrace_kv_blocks_used"][1][model] += worker.used_block_count
            gauges["headrace_kv_blocks_total"][1][model] += worker.block_count
            gauges["headrace_worker_sessions"][1][model] += worker.open_request_count
            gauges["headrace_workers"][1][model] += 1
        # Workers, blocks and running batches belong to a model, whatever adapters its requests choose.
        models = [name for name, model in self._fleet.models().items() if not model.parent]
        for name, (text, values) in gauges.items():
            family = GaugeMetricFamily(name, text, labels=["model"])
            for model in {*models, *values}:
                family.add_metric([model], values.get(model, 0.0))
            yield family
        yield from self._by_worker()
        task_count = len(asyncio.all_tasks(self._loop))
        yield GaugeMetricFamily("headrace_event_loop_tasks", "Tasks of the gateway", value=task_count)

    def _by_worker(self) -> Iterator[Metric]:
        workers = [worker for worker in self._fleet.workers if self._fleet.is_attached(worker.worker_id)]
        for kind, name, text, field in PER_WORKER:
            family = kind(name, text, labels=["model", "worker"])
            for worker in workers:
                family.add_metric([worker.model.model, worker.worker_id], getattr(worker, field))
            yield family

    def _waiting(self) -> defaultdict[str, float]:
        fresh = time.monotonic() - self._queues_heard < STALE_SECONDS
        return defaultdict(float, self._queues if fresh else {})

    def _open(self) -> defaultdict[str, float]:
        return defaultdict(float, self._ledger.open_counts())
