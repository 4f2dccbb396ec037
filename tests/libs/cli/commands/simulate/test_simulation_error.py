"""Figures of a run stand beside those of its simulation."""

from typing import Any

import pytest

from headrace.cli.commands.simulate.recorded_request import RecordedRequest
from headrace.cli.commands.simulate.simulation_error import compared, overhead_seconds

WORKER = {
    "base_seconds": 0.01,
    "prefill_seconds_per_token": 0.001,
    "decode_seconds_per_sequence": 0.002,
    "max_step_token_count": 100,
}


def request(number: int, ttft: float | None) -> RecordedRequest:
    return RecordedRequest(float(number), 150, 10, e2e=2.0, ttft=ttft, tpot=0.01)


def test_what_is_left_of_a_first_token_without_its_steps_is_spent_outside() -> None:
    steps = 2 * 0.01 + 150 * 0.001 + 0.002
    found = [request(number, steps + 0.001 * number) for number in range(11)]
    assert overhead_seconds(found, WORKER, 50) == pytest.approx(0.005)
    assert overhead_seconds(found, WORKER, 10) == pytest.approx(0.001)
    assert overhead_seconds([request(0, steps / 2)], WORKER, 50) == 0, "a fit is never exact"
    assert overhead_seconds([request(0, None)], WORKER, 50) == 0


def test_errors_are_shares_of_what_was_measured() -> None:
    played: list[dict[str, Any]] = []

    def simulate(scenario: dict[str, Any]) -> dict[str, Any]:
        with open(scenario["trace"]) as file:
            played.extend({"line": line} for line in file)
        figures = {"mean": 110.0, "p50": 90.0, "p95": None, "p99": 100.0}
        return {"finished": 3, "ttft_ms": figures, "tpot_ms": figures, "e2e_ms": figures}

    found = compared([request(number, 0.1) for number in range(3)], {"overhead_seconds": 0.005}, simulate)
    errors = {row["figure"]: row["error"] for row in found["figures"]}
    assert (len(played), found["requests"], found["overhead_ms"]) == (3, 3, 5.0)
    assert (errors["ttft_mean_ms"], errors["ttft_p50_ms"], errors["ttft_p99_ms"]) == (0.1, -0.1, 0.0)
    assert errors["e2e_p95_ms"] is None
    without = compared([request(0, None)], {"overhead_seconds": 0.0}, simulate)
    assert not [row for row in without["figures"] if row["figure"].startswith("ttft")]
