"""Work of one model at one moment, and what its workers can do."""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from headrace.scheduler.core.fleet.fleet import Fleet
from headrace.scheduler.core.fleet.worker import Worker


@dataclass(frozen=True, slots=True)
class Capacity:
    """Figures of one worker: the means of all that have measured them."""

    slot_count: float
    """Requests that it runs at once."""
    block_count: float
    """KV blocks. 0: it keeps none."""
    prefill_rate: float
    """Prompt tokens per second. 0: not measured yet."""
    step_seconds: float
    """Seconds of a step. 0: not measured yet."""
    hourly_price: float


@dataclass(frozen=True, slots=True)
class MeasuredLoad:
    """Load and capacity at one moment."""

    waiting_count: int
    """Requests that wait for a place."""
    running_count: int
    """Requests that workers hold, or are being sent."""
    waiting_token_count: int
    """Prompt tokens that are not computed yet, in the queue and on workers."""
    used_block_count: int
    worker_count: int
    """Workers that run whole requests and take some."""
    unsure_count: int
    """Workers whose figures are not believed: they are silent, do not answer, hang, or report no numbers."""
    capacity: Capacity | None
    """None: no worker has reported any."""


def measure_load(fleet: Fleet, waiting_count: int, waiting_token_count: int, now: float) -> MeasuredLoad:
    """Adds up what the workers of a model report, and what waits for them. Costs O(workers)."""
    whole = [worker for worker in fleet.workers.values() if not worker.report.is_prefill]
    known = [worker for worker in whole if _is_credible(worker)]
    sure = [
        worker for worker in known if fleet.hears(worker, now) and not worker.suspect and not worker.is_stalled(now)
    ]
    serving = [worker for worker in sure if not worker.report.draining]
    staying = [worker for worker in whole if not worker.report.draining]
    backlog = sum(worker.report.waiting_token_count + worker.sent_token_count for worker in known)
    return MeasuredLoad(
        waiting_count=waiting_count,
        running_count=sum(worker.load for worker in known),
        waiting_token_count=waiting_token_count + backlog,
        used_block_count=sum(worker.report.used_block_count for worker in known),
        worker_count=len(serving),
        unsure_count=len(staying) - len(serving),
        capacity=_capacity(serving),
    )


def _is_credible(worker: Worker) -> bool:
    report = worker.report
    figures = (report.prefill_rate, report.step_seconds, report.hourly_price, report.wait_seconds)
    counts = (report.credit_count, report.open_count, report.block_count, report.used_block_count)
    return all(math.isfinite(figure) and figure >= 0 for figure in (*figures, *counts))


def _capacity(workers: Sequence[Worker]) -> Capacity | None:
    if not workers:
        return None

    def mean(figure: Callable[[Worker], float]) -> float:
        return _mean(value for value in map(figure, workers) if value)

    return Capacity(
        slot_count=mean(lambda worker: worker.slot_count),
        block_count=mean(lambda worker: worker.report.block_count),
        prefill_rate=mean(lambda worker: worker.pace.prefill_rate),
        step_seconds=mean(lambda worker: worker.pace.step_seconds),
        hourly_price=mean(lambda worker: worker.report.hourly_price),
    )


def _mean(values: Iterable[float]) -> float:
    found = list(values)
    return sum(found) / len(found) if found else 0.0
