"""Load is computed from what a gateway counts."""

import math

import pytest

from headrace.cli.terminal.platform_load import Labels, Reading, busy_utilization, measure_load, percentile_ms

MODEL = (("model", "m"),)


def reading(at: float, tokens: float, first_tokens: dict[float, float]) -> Reading:
    buckets: dict[Labels, float] = {
        (("le", str(bound)), ("model", "m")): count for bound, count in first_tokens.items()
    }
    return Reading(
        at,
        {
            "headrace_output_tokens_total": {MODEL: tokens},
            "headrace_requests_open": {MODEL: 5},
            "headrace_requests_waiting": {(("holder", "scheduler"), *MODEL): 2, (("holder", "w"), *MODEL): 1},
            "headrace_kv_usage_ratio": {(*MODEL, ("worker", "a")): 0.25, (*MODEL, ("worker", "b")): 0.5},
            "headrace_workers": {(*MODEL, ("worker", "a")): 1, (*MODEL, ("worker", "b")): 1},
            "headrace_time_to_first_token_seconds_bucket": buckets,
        },
    )


def test_rates_are_of_the_time_between_two_readings() -> None:
    before = reading(10, 100, {0.1: 4, 1.0: 4, math.inf: 4})
    now = reading(12, 300, {0.1: 4, 1.0: 14, math.inf: 14})
    (load,) = measure_load(before, now, ["m"])
    assert load.tokens_per_second == 100
    assert (load.worker_count, load.running, load.waiting, load.kv_usage) == (2, 2, 3, 0.5)
    # The ten new ones lie between 0.1 and 1 s; the four before do not count.
    assert load.ttft_p50_ms == pytest.approx(550)
    assert load.ttft_p95_ms == pytest.approx(955)


def test_without_new_tokens_latencies_are_of_all_time() -> None:
    same = reading(10, 100, {0.1: 4, 1.0: 4, math.inf: 4})
    (load,) = measure_load(same, same, ["m"])
    assert load.tokens_per_second == 0
    assert load.ttft_p50_ms == pytest.approx(50)


def test_a_model_that_never_answered_has_no_latency() -> None:
    assert percentile_ms({}, 0.5) is None
    assert percentile_ms({1.0: 0, math.inf: 0}, 0.5) is None
    assert percentile_ms({1.0: 0, math.inf: 3}, 0.5) == 1000


def test_utilization_is_the_share_of_the_peak() -> None:
    """For a model it is that of all time, for one of its two workers that of busy time."""
    workers = [(*MODEL, ("worker", name)) for name in ("a", "b")]

    def at(seconds: float, moved: float) -> Reading:
        return Reading(
            seconds,
            {
                "headrace_moved_bytes_total": dict.fromkeys(workers, moved),
                "headrace_busy_seconds_total": dict.fromkeys(workers, 5.0),
                "headrace_peak_bytes_per_second": dict.fromkeys(workers, 100.0),
                "headrace_peak_operations_per_second": dict.fromkeys(workers, 0.0),
            },
        )

    (load,) = measure_load(at(10, 0), at(12, 50), ["m"])
    assert (load.mbu, load.mfu) == (0.25, None)
    assert busy_utilization(at(12, 50), "a") == {"mbu": 0.1}
