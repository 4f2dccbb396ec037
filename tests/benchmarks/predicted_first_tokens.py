"""Predicts first tokens on four unlike workers under a trace of real traffic, in virtual time:

    python -m tests.benchmarks.predicted_first_tokens TRACE [RATE] [SECONDS]

Prints errors and latencies with step times fitted to the steps that ran, and with the
rates of a usual step alone. TRACE is a file that `headrace simulate` reads.
"""

import gc
import sys
from functools import partial
from pathlib import Path

from tests.benchmarks.unlike_workers import WORKERS, add_unlike_workers

from headrace.load_generator.percentile import percentile
from headrace.scheduler.core.queueing.ticket import Ticket
from headrace.scheduler.simulation.simulated_platform import MODEL, SimulatedPlatform
from headrace.scheduler.simulation.trace_file import read_trace
from headrace.scheduler.simulation.traffic import Traffic

DEADLINE_SECONDS = 600.0


def play(traffic: Traffic, rate: float, *, measures_pace: bool) -> SimulatedPlatform:
    """Plays traffic to its end. `measures_pace`: whether workers fit the times of their steps."""
    platform = SimulatedPlatform(measures_pace=measures_pace)
    add_unlike_workers(platform)
    for number, arrival in enumerate(traffic.at_rate(rate)):
        counts = arrival.prompt_token_count, arrival.output_token_count
        ticket = Ticket(f"{number:07d}", 1, MODEL, "", arrival.time, arrival.time + DEADLINE_SECONDS, *counts)
        platform.submit(arrival.time, ticket, partial(arrival.prompt_token_ids, number))
    platform.run_to_end()
    return platform


def row(platform: SimulatedPlatform) -> str:
    """Formats errors, latencies, and the requests of each worker."""
    errors = [first_token.error for first_token in platform.first_tokens]
    outcomes = [outcome for outcome in platform.outcomes.values() if outcome.finished_at is not None]
    ttfts = [outcome.ttft for outcome in outcomes]
    whole = [outcome.ended_at - outcome.asked_at for outcome in outcomes]
    shares = ", ".join(f"{name} {sum(outcome.worker == name for outcome in outcomes)}" for name in WORKERS)
    return (
        f"{sum(errors) / len(errors):.3f} | {_at(errors, 50)} | {_at(errors, 99)} | "
        f"{_at(ttfts, 50)}, {_at(ttfts, 95)}, {_at(ttfts, 99)} | {_at(whole, 50)}, {_at(whole, 95)} | {shares}"
    )


def _at(values: list[float], percent: float) -> str:
    return f"{percentile(values, percent):.3f}"


def main() -> None:
    path, rate = Path(sys.argv[1]), float(sys.argv[2]) if len(sys.argv) > 2 else 1.0
    traffic = read_trace(path).part(float(sys.argv[3]) if len(sys.argv) > 3 else None, None)
    print(f"{path.name}, {len(traffic.arrivals)} requests, {rate:g} times as many per second\n")
    print("| step times | error, mean | p50 | p99 | TTFT p50, p95, p99, s | E2E p50, p95, s | requests |")
    print("|---|---|---|---|---|---|---|")
    for name, measures_pace in (("fitted", True), ("of a usual step", False)):
        print(f"| {name} | {row(play(traffic, rate, measures_pace=measures_pace))} |")


if __name__ == "__main__":
    gc.disable()
    main()
