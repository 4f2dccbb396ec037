"""Error of a simulation: what it finds of requests that a running platform has served, beside what they took."""

import json
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from headrace.cli.commands.simulate.recorded_request import RecordedRequest
from headrace.domain.step_times import StepTimes
from headrace.load_generator.percentile import percentile

FIGURES = (("ttft", ("mean", "p50", "p99")), ("tpot", ("mean", "p50")), ("e2e", ("mean", "p50", "p95")))
"""Figures that are compared."""


def overhead_seconds(requests: Sequence[RecordedRequest], worker: Mapping[str, Any], percent: float) -> float:
    """Returns the time to a first token that is spent outside of steps: what is left of it without the steps that its
    prompt fills, at such a percentile of the requests. 0 where no first token was recorded."""
    times = StepTimes(
        worker["base_seconds"], worker["prefill_seconds_per_token"], worker["decode_seconds_per_sequence"]
    )
    room = worker["max_step_token_count"]
    left = []
    for request in requests:
        if request.ttft is not None:
            step_count = -(-request.prompt_token_count // room)
            left.append(request.ttft - (step_count - 1) * times.base_seconds - times.seconds(0, 1, 0))
            left[-1] -= request.prompt_token_count * times.prompt_token_seconds
    return max(0.0, percentile(left, percent) or 0.0)


def compared(
    requests: Sequence[RecordedRequest],
    scenario: Mapping[str, Any],
    simulate: Callable[[dict[str, Any]], dict[str, Any]],
) -> dict[str, Any]:
    """Plays requests in virtual time, and returns each figure as it was, as the simulation has it, and its error."""
    with tempfile.TemporaryDirectory(prefix="headrace-calibration-") as folder:
        trace = Path(folder) / "requests.jsonl"
        trace.write_text("".join(json.dumps(request.trace_row()) + "\n" for request in requests))
        found = simulate({**scenario, "trace": str(trace)})
    rows = []
    for figure, statistics in FIGURES:
        values = [value for request in requests if (value := getattr(request, figure)) is not None]
        for name in statistics if values else ():
            real = 1000 * (fmean(values) if name == "mean" else percentile(values, float(name[1:])) or 0.0)
            rows.append(_row(f"{figure}_{name}_ms", real, found[f"{figure}_ms"][name]))
    return {
        "requests": len(requests),
        "simulated_finished": found["finished"],
        "overhead_ms": round(1000 * scenario["overhead_seconds"], 3),
        "figures": rows,
        "scenario": {name: value for name, value in scenario.items() if name != "trace"},
    }


def _row(name: str, real: float, simulated: float | None) -> dict[str, Any]:
    """Returns one figure; its error is the difference of both, as a share of the real one."""
    error = None if simulated is None or not real else round(simulated / real - 1, 4)
    return {"figure": name, "real": round(real, 3), "simulated": simulated, "error": error}
