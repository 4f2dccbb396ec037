"""History of the fleet: its load and the speed of its answers over the last hour, in equal steps."""

import asyncio
import math
import time
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from headrace.gateway.access.caller import Caller
from headrace.gateway.fleet.fleet import Fleet
from headrace.gateway.fleet.platform_metrics import PlatformMetrics
from headrace.gateway.timing.recent_requests import RecentRequests
from headrace.gateway.timing.request_record import RequestRecord
from headrace.gateway.timing.token_meter import OUTPUT_TOKENS

STEP_SECONDS = 10
MAX_POINTS = 360
MAX_MODELS = 16
"""Maximum number of models in one point. The busiest are kept."""
FIGURES = ("requests_per_second", "tokens_per_second", "ttft_p50_ms", "ttft_p95_ms", "running", "queued", "kv_usage")
Json = dict[str, Any]


@dataclass(slots=True)
class ModelPoint:
    """One model in one step."""

    requests_per_second: float = 0.0
    """Requests that ended, at this gateway."""
    tokens_per_second: float = 0.0
    """Output tokens that this gateway received."""
    ttft_p50_ms: float | None = None
    """Median time to the first token of the requests that ended. None: none of them got one."""
    ttft_p95_ms: float | None = None
    running: int = 0
    queued: int = 0
    kv_usage: float | None = None
    """Share of the KV blocks in use. None: the model has none."""

    @property
    def weight(self) -> float:
        """Work of the model, by which the busiest are chosen."""
        return self.tokens_per_second + self.requests_per_second + self.running + self.queued


@dataclass(slots=True)
class FleetPoint:
    """All models at the end of one step."""

    time: float
    """Unix seconds."""
    models: dict[str, ModelPoint] = field(default_factory=dict)


class FleetHistory:
    """Takes a point every few seconds and forgets those of more than an hour ago."""

    def __init__(self, fleet: Fleet, metrics: PlatformMetrics, recent: RecentRequests) -> None:
        self._fleet = fleet
        self._metrics = metrics
        self._recent = recent
        self._points: deque[FleetPoint] = deque(maxlen=MAX_POINTS)
        self._added_count = recent.added_count
        self._tokens = _output_tokens()
        self._taken = time.monotonic()

    async def watch(self) -> None:
        """Takes points until cancelled."""
        while True:
            await asyncio.sleep(STEP_SECONDS)
            self.take()

    def take(self) -> None:
        """Takes one point, over the time since the last."""
        now, tokens = time.monotonic(), _output_tokens()
        seconds = max(now - self._taken, 1e-3)
        models: dict[str, ModelPoint] = {}
        self._take_workers(models)
        self._take_requests(models, seconds)
        for name, count in tokens.items():
            if (made := count - self._tokens.get(name, 0.0)) > 0:
                models.setdefault(name, ModelPoint()).tokens_per_second = round(made / seconds, 2)
        self._taken, self._tokens, self._added_count = now, tokens, self._recent.added_count
        busiest = sorted(models, key=lambda name: models[name].weight, reverse=True)[:MAX_MODELS]
        self._points.append(FleetPoint(time.time(), {name: models[name] for name in sorted(busiest)}))

    def describe(self, caller: Caller) -> Json:
        """Returns times and, for each model that the caller may use, a list of each figure: null where the model was
        not there."""
        points = list(self._points)
        names = sorted({name for point in points for name in point.models if caller.may_use(name)})
        return {
            "step_seconds": STEP_SECONDS,
            "times": [round(point.time, 1) for point in points],
            "models": {
                name: {figure: [_figure(point.models.get(name), figure) for point in points] for figure in FIGURES}
                for name in names
            },
        }

    def _take_workers(self, models: dict[str, ModelPoint]) -> None:
        workers = [one for one in self._fleet.workers if self._fleet.is_attached(one.worker_id)]
        blocks: dict[str, tuple[int, int]] = {}
        for worker in workers:
            name = worker.model.model
            point = models.setdefault(name, ModelPoint())
            point.running += worker.running_count
            point.queued += worker.waiting_count
            used, count = blocks.get(name, (0, 0))
            blocks[name] = (used + worker.used_block_count, count + worker.block_count)
        for counts in self._metrics.waiting_counts().values():
            for name, count in counts.items():
                models.setdefault(name, ModelPoint()).queued += count
        for name, (used, count) in blocks.items():
            models[name].kv_usage = round(used / count, 4) if count else None

    def _take_requests(self, models: dict[str, ModelPoint], seconds: float) -> None:
        added = self._recent.added_count - self._added_count
        records = self._recent.since(self._added_count)
        share = added / len(records) if records else 0.0
        by_model: dict[str, list[RequestRecord]] = {}
        for record in records:
            if record.model:
                by_model.setdefault(record.model, []).append(record)
        for name, ended in by_model.items():
            point = models.setdefault(name, ModelPoint())
            point.requests_per_second = round(len(ended) * share / seconds, 3)
            waits = sorted(wait for one in ended if (wait := one.first_token_seconds) is not None)
            point.ttft_p50_ms, point.ttft_p95_ms = _quantile(waits, 0.5), _quantile(waits, 0.95)


def _figure(point: ModelPoint | None, name: str) -> float | None:
    return None if point is None else getattr(point, name)


def _quantile(ordered: list[float], part: float) -> float | None:
    """Returns the nearest rank, in milliseconds."""
    if not ordered:
        return None
    return round(ordered[max(0, math.ceil(part * len(ordered)) - 1)] * 1000, 1)


def _output_tokens() -> dict[str, float]:
    """Output tokens so far, by model."""
    samples: Iterable[Any] = (sample for family in OUTPUT_TOKENS.collect() for sample in family.samples)
    return {one.labels["model"]: one.value for one in samples if one.name.endswith("_total")}
