"""Comparison of two runs: ratios with confidence intervals, and which of them are noise.

Intervals are percentile bootstraps (Efron, 1979) over requests, and over slices of time for rates. They tell how much
the requests of one run scatter, not how much one run differs from the next.
"""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import fmean

from headrace.load_generator.percentile import percentile
from headrace.load_generator.saved_run import SavedRun
from headrace.load_generator.stream_client import StreamRecord

DRAW_COUNT = 1000
SLICE_COUNT = 20
"""Slices of time that rates are resampled over."""
CONFIDENCE = 95.0
"""Percent."""
SHARED_FACTS = ("model", "profile", "scale", "requests", "concurrency", "rate", "input_tokens", "output_tokens", "seed")
"""Facts of a summary without which two runs are not of one load."""
Statistic = Callable[[Sequence[float]], float | None]


@dataclass(frozen=True, slots=True)
class ComparedMetric:
    """One figure of both runs."""

    name: str
    first: float
    second: float
    ratio: float
    """Second by first."""
    low: float
    """Ends of the confidence interval of the ratio."""
    high: float
    verdict: str
    """better, worse, or noise: the interval holds 1."""


def compare_runs(first: SavedRun, second: SavedRun, seed: int = 0) -> list[ComparedMetric]:
    """Compares latencies, in milliseconds, and rates, per second. Leaves out what either run does not have."""
    generator = random.Random(seed)  # noqa: S311 - resampling, not a secret
    found: list[ComparedMetric | None] = []
    for name, value_of in _LATENCIES.items():
        series = [_values(run, value_of) for run in (first, second)]
        for percent in (50, 95):
            statistic = _percentile_of(percent)
            found.append(_compared(f"{name} p{percent} ms", series, statistic, generator, is_rate=False))
    for name, rates_of in _RATES.items():
        series = [rates_of(run) for run in (first, second)]
        found.append(_compared(f"{name}/s", series, fmean, generator, is_rate=True))
    return [metric for metric in found if metric is not None]


def different_facts(first: SavedRun, second: SavedRun) -> list[str]:
    """Names the facts in which the loads of two runs differ."""
    return [name for name in SHARED_FACTS if first.summary.get(name) != second.summary.get(name)]


def _values(run: SavedRun, value_of: Callable[[StreamRecord], float | None]) -> list[float]:
    return [value for record in run.good if (value := value_of(record)) is not None]


def _compared(
    name: str, series: Sequence[list[float]], statistic: Statistic, generator: random.Random, *, is_rate: bool
) -> ComparedMetric | None:
    first, second = (statistic(values) if values else None for values in series)
    if not first or not second:
        return None
    ratios = []
    for _ in range(DRAW_COUNT):
        one, other = (statistic(generator.choices(values, k=len(values))) for values in series)
        if one and other is not None:
            ratios.append(other / one)
    tail = (100 - CONFIDENCE) / 2
    low, high = percentile(ratios, tail) or 0.0, percentile(ratios, 100 - tail) or 0.0
    is_more = low > 1
    verdict = "noise" if low <= 1 <= high else "better" if is_more == is_rate else "worse"
    return ComparedMetric(name, first, second, second / first, low, high, verdict)


def _percentile_of(percent: float) -> Statistic:
    return lambda values: percentile(values, percent)


_LATENCIES: dict[str, Callable[[StreamRecord], float | None]] = {
    "TTFT": lambda record: record.ttft * 1000,
    "TPOT": lambda record: None if record.tpot is None else record.tpot * 1000,
    "E2E": lambda record: record.e2e * 1000,
}
_RATES: dict[str, Callable[[SavedRun], list[float]]] = {
    "requests": lambda run: run.request_rates(SLICE_COUNT),
    "tokens": lambda run: run.token_rates(SLICE_COUNT),
}
