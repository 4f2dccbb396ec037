"""A scenario gives the same figures again, and the figures are those of its requests."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from headrace.scheduler.simulation.figures import figures
from headrace.scheduler.simulation.scenario import Scenario
from headrace.scheduler.simulation.traffic import Arrival, Traffic

TIMES = {"base_seconds": 0.01, "prefill_seconds_per_token": 0.001, "decode_seconds_per_sequence": 0.0}


def played(arrivals: list[Arrival], **settings: Any) -> dict[str, Any]:
    scenario, traffic = Scenario(trace="", **{**TIMES, **settings}), Traffic.of(arrivals)
    return figures(scenario, traffic, scenario.play(traffic))


def test_figures_of_two_requests_are_those_on_paper() -> None:
    """The first prompt takes a step of 110 ms, the second one of 210 ms, and each further token 10 ms."""
    found = played([Arrival(0.0, 100, 3), Arrival(1.0, 200, 5)], ttft_seconds=0.15)
    assert found["ttft_ms"] == {"mean": 160.0, "p50": 160.0, "p95": 205.0, "p99": 209.0}
    assert found["itl_ms"] == found["tpot_ms"] == {"mean": 10.0, "p50": 10.0, "p95": 10.0, "p99": 10.0}
    assert found["e2e_ms"]["p50"] == 190.0
    assert found["seconds"] == 1.25
    assert found["goodput_share"] == 0.5
    assert found["goodput_requests_per_second"] == 0.8
    assert found["output_tokens_per_second"] == 6.4
    assert found["utilization"] == pytest.approx((0.13 + 0.25) / 1.25)
    assert (found["requests"], found["finished"], found["steps"]) == (2, 2, 8)


def test_service_levels_hold_for_mean_times_between_tokens() -> None:
    arrivals = [Arrival(0.0, 100, 3), Arrival(0.05, 300, 3)]
    assert played(arrivals, tpot_seconds=10.0)["goodput_share"] == 1.0
    # The second prompt comes between the first request's tokens.
    assert played(arrivals, tpot_seconds=0.05)["goodput_share"] == 0.5


def test_requests_that_get_no_answer_are_counted_by_their_ends() -> None:
    arrivals = [Arrival(0.0, 10, 2000), *(Arrival(0.1, 10, 5) for _ in range(3)), Arrival(0.2, 3000, 2)]
    found = played(
        arrivals,
        policy="max_waiting_count=2",
        max_running_count=1,
        max_model_length=5000,
        kv_token_count=2048,
        timeout_seconds=5.0,
    )
    # The first runs until its deadline. Of those behind it, one ends within the 100 ms that are left, one does not.
    names = ("finished", "refused", "queue_timeout", "timeout", "too_long")
    assert [found[name] for name in names] == [1, 1, 0, 2, 1]
    assert found["refusals"] == {"queue_full": 1}
    assert found["max_queue_depth"] == 2
    assert found["queue_ms"]["p50"] == 4900.0


def test_a_faster_clock_of_arrivals_makes_requests_wait() -> None:
    arrivals = [Arrival(number * 1.0, 400, 10) for number in range(40)]
    slow, fast = played(arrivals), played(arrivals, rate=4.0)
    assert fast["ttft_ms"]["p95"] > 2 * slow["ttft_ms"]["p95"]
    assert fast["utilization"] > slow["utilization"]


def test_workers_follow_the_demand_and_cost_less_than_the_most() -> None:
    """A calm minute, a busy one of three times what a worker bears, and a calm one."""
    busy = [Arrival(60.0 + number * 0.1, 300, 20) for number in range(600)]
    calm = [Arrival(number * 4.0, 300, 20) for number in range(15)]
    arrivals = [*calm, *busy, *(Arrival(120.0 + number * 4.0, 300, 20) for number in range(30))]
    quick = "scaling_settle_seconds=20,scaling_start_seconds=5"
    scaled = played(arrivals, least_worker_count=1, most_worker_count=8, start_seconds=5.0, policy=quick)
    one, eight = played(arrivals), played(arrivals, worker_count=8)
    assert scaled["finished"] == len(arrivals)
    assert 3 <= scaled["most_workers"] <= 8
    assert scaled["ttft_ms"]["p95"] < 0.2 * one["ttft_ms"]["p95"]
    assert scaled["worker_hours"] < 0.6 * eight["worker_hours"]


def test_none_may_be_left_and_the_next_request_waits_for_a_start() -> None:
    found = played(
        [Arrival(0.0, 100, 3), Arrival(100.0, 100, 3)],
        least_worker_count=0,
        most_worker_count=2,
        start_seconds=10.0,
        policy="scaling_idle_seconds=30",
    )
    assert (found["finished"], found["refused"]) == (2, 0)
    assert 10_000 <= found["ttft_ms"]["p99"] <= 11_600
    assert found["worker_hours"] == pytest.approx((30 + 11) / 3600, abs=0.002)


@pytest.mark.process
def test_the_same_scenario_gives_the_same_bytes(tmp_path: Path) -> None:
    """Hashes of texts differ between the two processes."""
    rows = "".join(
        json.dumps(
            {"timestamp": 37 * n, "input_length": 64 + 31 * (n % 40), "output_length": 1 + n % 23, "hash_ids": [n % 7]}
        )
        + "\n"
        for n in range(300)
    )
    (tmp_path / "trace").write_text(rows)
    content = json.dumps(
        {"trace": str(tmp_path / "trace"), "worker_count": 3, "policy": "max_window_seconds=0.01", **TIMES}
    )
    command = [sys.executable, "-m", "headrace.scheduler.simulation"]
    answers = [
        subprocess.run(
            command, input=content, env={"PYTHONHASHSEED": seed}, capture_output=True, text=True, check=True
        ).stdout
        for seed in ("1", "2")
    ]
    assert answers[0] == answers[1]
    assert json.loads(answers[0])["finished"] == 300


@pytest.mark.process
def test_it_starts_without_what_a_service_needs() -> None:
    code = "import sys, headrace.scheduler.simulation.__main__; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert not {"torch", "numpy", "grpc", "pydantic"} & set(loaded.split())
