"""Metrics of the whole platform, from the last reports of workers and schedulers.

Every gateway shows all workers, so each figure names its worker: `max by (model, worker)` takes it once.
"""

import asyncio
import time
from collections.abc import Iterator, Mapping
from typing import Protocol

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from headrace.gateway.fleet.fleet import Fleet
from headrace.gateway.fleet.worker_facts import WorkerFacts

STALE_SECONDS = 3.0
"""Seconds without a report after which a scheduler has no queue: it is gone."""
NOBODY = ""
"""Worker of the series that shows zero for a model, so that its metrics exist while it has no worker."""
SUMMED: tuple[tuple[str, str, str], ...] = (
    ("headrace_requests_running", "Sequences in running batches", "running_count"),
    ("headrace_kv_blocks_used", "KV blocks held by live sequences", "used_block_count"),
    ("headrace_kv_blocks_total", "KV blocks", "block_count"),
    ("headrace_worker_sessions", "Sequences that workers hold state for", "open_request_count"),
)
"""Name and meaning of each gauge that a model without workers has too, at zero, and the field of WorkerFacts."""
PER_WORKER: tuple[tuple[type[GaugeMetricFamily | CounterMetricFamily], str, str, str], ...] = (
    (GaugeMetricFamily, "headrace_worker_open_requests", "Sequences that one worker holds", "open_request_count"),
    (GaugeMetricFamily, "headrace_memory_weights_bytes", "Memory of the weights", "weight_byte_count"),
    (GaugeMetricFamily, "headrace_memory_kv_bytes", "Memory of the KV cache, used or not", "kv_byte_count"),
    (GaugeMetricFamily, "headrace_memory_resident_bytes", "Main memory of the process", "resident_byte_count"),
    (GaugeMetricFamily, "headrace_kv_usage_ratio", "Share of the KV blocks that live sequences hold", "kv_usage"),
    (CounterMetricFamily, "headrace_draft_tokens", "Tokens that were drafted", "draft_token_count"),
    (CounterMetricFamily, "headrace_accepted_tokens", "Drafts that were right", "accepted_token_count"),
    (CounterMetricFamily, "headrace_preemptions", "Running sequences whose blocks were taken", "preemption_count"),
    (CounterMetricFamily, "headrace_prefix_cache_queries", "Prompt tokens looked up", "queried_token_count"),
    (CounterMetricFamily, "headrace_prefix_cache_hits", "Prompt tokens found", "cached_token_count"),
    (CounterMetricFamily, "headrace_prefix_cache_replaced", "Cached KV blocks given up", "replaced_block_count"),
    (CounterMetricFamily, "headrace_busy_seconds", "Time spent in steps", "busy_seconds"),
    (CounterMetricFamily, "headrace_moved_bytes", "Bytes that steps read from memory or wrote", "moved_byte_count"),
    (CounterMetricFamily, "headrace_operations", "Arithmetic operations of steps", "operation_count"),
    (GaugeMetricFamily, "headrace_peak_bytes_per_second", "Bandwidth of the memory; 0: not known", "memory_bandwidth"),
    (GaugeMetricFamily, "headrace_peak_operations_per_second", "Arithmetic rate; 0: not known", "arithmetic_rate"),
    (GaugeMetricFamily, "headrace_hourly_price", "Price of an hour of the device; 0: not known", "hourly_price"),
    (GaugeMetricFamily, "headrace_model_awake", "1 while the model is on its device", "is_awake"),
    (GaugeMetricFamily, "headrace_model_wait_seconds", "Predicted time until it is awake", "predicted_wait_seconds"),
    (CounterMetricFamily, "headrace_model_loads", "Times that the model was loaded", "load_count"),
    (CounterMetricFamily, "headrace_model_wakes", "Times that it woke from level 1", "wake_count"),
    (CounterMetricFamily, "headrace_model_sleeps", "Times that it went to level 1", "sleep_count"),
    (CounterMetricFamily, "headrace_model_drops", "Times that it left memory, level 2", "drop_count"),
    (CounterMetricFamily, "headrace_out_of_memory", "Times that memory ran out", "memory_shortage_count"),
    (GaugeMetricFamily, "headrace_memory_heap_free_bytes", "Fragments of the heap", "free_heap_byte_count"),
    (CounterMetricFamily, "headrace_cost", "Price of the time spent in steps", "cost"),
)
"""Type, name and meaning of each per-worker metric, and the field of WorkerFacts that holds its value."""


class OpenRequests(Protocol):
    """Requests of this gateway that are open: see Ledger."""

    def open_counts(self) -> dict[str, int]:
        """Returns their numbers by model."""


class PlatformMetrics(Collector):
    """Computes the metrics on demand, from any thread. A scheduler that is gone has no queue."""

    def __init__(self, fleet: Fleet, requests: OpenRequests) -> None:
        self._fleet = fleet
        self._requests = requests
        self._loop = asyncio.get_running_loop()
        self._queues: dict[str, tuple[float, Mapping[str, int]]] = {}
        """Time of the last report of each scheduler, in monotonic seconds, and its waiting sequences by model."""

    def observe_queues(self, waiting_counts: Mapping[str, int], scheduler_id: str = "scheduler") -> None:
        """Takes in a scheduler's number of waiting sequences, by model."""
        now = time.monotonic()
        fresh = {name: told for name, told in self._queues.items() if now - told[0] < STALE_SECONDS}
        self._queues = fresh | {scheduler_id: (now, waiting_counts)}

    def waiting_counts(self) -> dict[str, Mapping[str, int]]:
        """Sequences that wait in the queue of each scheduler that reported lately, by model."""
        now = time.monotonic()
        return {name: counts for name, (heard, counts) in list(self._queues.items()) if now - heard < STALE_SECONDS}

    def collect(self) -> Iterator[Metric]:
        workers = [worker for worker in self._fleet.workers if self._fleet.is_attached(worker.worker_id)]
        # Workers, blocks and running batches belong to a model, whatever adapters its requests choose.
        models = [name for name, model in self._fleet.models().items() if not model.parent]
        yield from self._summed(models, workers)
        yield self._waiting(models, workers)
        yield self._open(models)
        yield from _by_worker(workers)
        task_count = len(asyncio.all_tasks(self._loop))
        yield GaugeMetricFamily("headrace_event_loop_tasks", "Tasks of the gateway", value=task_count)

    def _summed(self, models: list[str], workers: list[WorkerFacts]) -> Iterator[Metric]:
        present = GaugeMetricFamily("headrace_workers", "1 for each worker attached", labels=["model", "worker"])
        families = [(GaugeMetricFamily(name, text, labels=["model", "worker"]), field) for name, text, field in SUMMED]
        for worker in workers:
            labels = [worker.model.model, worker.worker_id]
            present.add_metric(labels, 1.0)
            for family, field in families:
                family.add_metric(labels, getattr(worker, field))
        for family in (present, *(family for family, _ in families)):
            for model in models:
                family.add_metric([model, NOBODY], 0.0)
            yield family

    def _waiting(self, models: list[str], workers: list[WorkerFacts]) -> Metric:
        """Waiting sequences, by holder: a scheduler's queue, or a worker that has not begun them."""
        family = GaugeMetricFamily("headrace_requests_waiting", "Sequences waiting to run", labels=["model", "holder"])
        for worker in workers:
            family.add_metric([worker.model.model, worker.worker_id], worker.waiting_count)
        for scheduler_id, counts in self.waiting_counts().items():
            for model, count in counts.items():
                family.add_metric([model, scheduler_id], count)
        for model in models:
            family.add_metric([model, NOBODY], 0.0)
        return family

    def _open(self, models: list[str]) -> Metric:
        """Requests of this gateway alone: those of several add up."""
        family = GaugeMetricFamily("headrace_requests_open", "Requests accepted and not ended", labels=["model"])
        counts = self._requests.open_counts()
        for model in {*models, *counts}:
            family.add_metric([model], counts.get(model, 0))
        return family


def _by_worker(workers: list[WorkerFacts]) -> Iterator[Metric]:
    for kind, name, text, field in PER_WORKER:
        family = kind(name, text, labels=["model", "worker"])
        for worker in workers:
            family.add_metric([worker.model.model, worker.worker_id], getattr(worker, field))
        yield family
