"""Load of a running platform, from two readings of a gateway's metrics."""

import math
import time
from collections import defaultdict
from dataclasses import dataclass, field

import httpx2
from prometheus_client.parser import text_string_to_metric_families

from headrace.cli.reach.platform_http import get
from headrace.cli.target import key_headers
from headrace.errors import Unavailable

TIMEOUT = 5.0
TTFT_BUCKET = "headrace_time_to_first_token_seconds_bucket"

Labels = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Reading:
    """Metrics at one time."""

    at: float
    values: dict[str, dict[Labels, float]]

    def sum(self, name: str, **labels: str) -> float:
        """Adds up a metric over all of its series that have these labels."""
        wanted = set(labels.items())
        return sum(value for found, value in self.values.get(name, {}).items() if wanted <= set(found))

    def most(self, name: str, **labels: str) -> float:
        """Returns the largest of a metric's series that have these labels; 0 without any."""
        wanted = set(labels.items())
        return max((value for found, value in self.values.get(name, {}).items() if wanted <= set(found)), default=0.0)

    def buckets(self, model: str) -> dict[float, float]:
        """Returns how many first tokens of a model came within each bound, in seconds."""
        found = self.values.get(TTFT_BUCKET, {}).items()
        return {float(dict(labels)["le"]): value for labels, value in found if ("model", model) in labels}


@dataclass(frozen=True, slots=True)
class ModelLoad:
    """Load of one model."""

    model: str
    worker_count: int
    running: int
    waiting: int
    tokens_per_second: float
    ttft_p50_ms: float | None
    """Upper bound of the histogram's bucket; None before the first token."""
    ttft_p95_ms: float | None
    kv_usage: float
    """Share of the KV blocks in use, of the fullest worker."""
    finished: int = field(default=0)
    mbu: float | None = None
    """Model bandwidth utilization: share of the memory's bandwidth that steps used. None: the peak is not known."""
    mfu: float | None = None
    """Model FLOPs utilization: share of the arithmetic rate that steps used. None: the peak is not known."""


def read_metrics(url: str, key: str) -> Reading:
    """Reads a gateway's metrics. Raises Unavailable."""
    response = get(f"{url}/metrics", key_headers(key), TIMEOUT)
    if response.status_code != httpx2.codes.OK:
        answers = f"{url}/metrics answers {response.status_code}"
        raise Unavailable(f"{answers}; a platform with keys wants one: --key")
    values: dict[str, dict[Labels, float]] = defaultdict(dict)
    for family in text_string_to_metric_families(response.text):
        for sample in family.samples:
            values[sample.name][tuple(sorted(sample.labels.items()))] = sample.value
    return Reading(time.monotonic(), values)


def measure_load(before: Reading, now: Reading, models: list[str]) -> list[ModelLoad]:
    """Returns the load of each model between two readings. Latencies are of the time between them, or of all time where
    no token came meanwhile."""
    return [_load(before, now, model) for model in models]


def _load(before: Reading, now: Reading, model: str) -> ModelLoad:
    tokens = now.sum("headrace_output_tokens_total", model=model) - before.sum(
        "headrace_output_tokens_total", model=model
    )
    waiting = now.sum("headrace_requests_waiting", model=model)
    whole, earlier = now.buckets(model), before.buckets(model)
    recent = {bound: count - earlier.get(bound, 0.0) for bound, count in whole.items()}
    chosen = recent if recent.get(math.inf, 0.0) > 0 else whole
    return ModelLoad(
        model,
        worker_count=int(now.sum("headrace_workers", model=model)),
        running=max(0, int(now.sum("headrace_requests_open", model=model) - waiting)),
        waiting=int(waiting),
        tokens_per_second=max(0.0, tokens / max(now.at - before.at, 1e-3)),
        ttft_p50_ms=percentile_ms(chosen, 0.5),
        ttft_p95_ms=percentile_ms(chosen, 0.95),
        kv_usage=now.most("headrace_kv_usage_ratio", model=model),
        finished=int(now.sum("headrace_requests_total", model=model)),
        mbu=_utilization(before, now, model, "headrace_moved_bytes_total", "headrace_peak_bytes_per_second"),
        mfu=_utilization(before, now, model, "headrace_operations_total", "headrace_peak_operations_per_second"),
    )


def busy_utilization(now: Reading, worker: str) -> dict[str, float]:
    """Returns MBU and MFU of one worker while it was busy, since its start, as far as its peaks are known."""
    busy = now.most("headrace_busy_seconds_total", worker=worker)
    pairs = {
        "mbu": ("headrace_moved_bytes_total", "headrace_peak_bytes_per_second"),
        "mfu": ("headrace_operations_total", "headrace_peak_operations_per_second"),
    }
    found = {
        name: (now.most(done, worker=worker), busy * now.most(peak, worker=worker))
        for name, (done, peak) in pairs.items()
    }
    return {name: round(done / most, 6) for name, (done, most) in found.items() if most > 0}


def _utilization(before: Reading, now: Reading, model: str, counter: str, peak: str) -> float | None:
    """Returns the share of the workers' peaks that a counter of theirs rose by, from 0 to 1."""
    most = now.sum(peak, model=model) * max(now.at - before.at, 1e-3)
    return max(0.0, now.sum(counter, model=model) - before.sum(counter, model=model)) / most if most else None


def percentile_ms(buckets: dict[float, float], share: float) -> float | None:
    """Returns the milliseconds within which a share of the values lies, interpolated as Prometheus does; None without
    values."""
    total = buckets.get(math.inf, 0.0)
    if total <= 0:
        return None
    low, below = 0.0, 0.0
    for bound, count in sorted(buckets.items()):
        if count >= share * total:
            if math.isinf(bound):
                return low * 1e3
            part = (share * total - below) / (count - below) if count > below else 1.0
            return (low + (bound - low) * part) * 1e3
        low, below = bound, count
    return low * 1e3
