"""Error of `headrace simulate`: the same little trace on a real platform and in virtual time.

    make bench-simulation     or: python -m tests.benchmarks.simulation_accuracy [--per-second N] [--rounds N] [--json]

The platform is whole: gateway, tokenizers, scheduler, cache, and workers with sim engines, whose steps take a known
time and hardly any processor. So the error is that of the simulator's picture of scheduling, batching and queues, and
not that of a step model. The time that a request takes outside the steps is measured first, with single requests, and
given to the simulator as its overhead. Each round plays the trace once; figures are of all rounds together.
"""

import argparse
import asyncio
import os
import platform as machine
import random
import statistics
import tempfile
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rich.table import Table
from tests.benchmarks.service_levels import OK, Outcome, send
from tests.harness.running_platform import running_platform

from headrace.cli.output import console, print_json
from headrace.load_generator.percentile import percentile
from headrace.scheduler.simulation.outcome import Ending
from headrace.scheduler.simulation.scenario import Scenario
from headrace.scheduler.simulation.traffic import Arrival, Traffic

WORKERS = 2
RUNNING = 8
BASE_SECONDS = 0.02
PREFILL_SECONDS = 0.0002
DECODE_SECONDS = 0.001
REQUESTS = 150
PERCENTILES = (50, 95)


def trace(per_second: float) -> list[Arrival]:
    """Requests that come at random, with lengths of a chat, more than the workers run at once for part of the time."""
    chance, time, arrivals = random.Random(5), 0.0, []
    for _ in range(REQUESTS):
        time += chance.expovariate(per_second)
        prompt, output = int(chance.lognormvariate(5.0, 0.8)), int(chance.lognormvariate(3.6, 0.6))
        arrivals.append(Arrival(time, min(max(prompt, 4), 1500), min(max(output, 2), 200)))
    return arrivals


async def overhead_seconds(url: str) -> float:
    """Measures the time of single requests besides their one step."""
    chance = random.Random(1)
    ttfts = [(await send(url, chance, 4, 2)).ttft for _ in range(30)]
    return statistics.median(ttfts) - BASE_SECONDS - 4 * PREFILL_SECONDS


async def replay(url: str, arrivals: list[Arrival]) -> list[Outcome]:
    """Sends each request at its time."""
    chance = random.Random(2)

    async def send_at(arrival: Arrival) -> Outcome:
        await asyncio.sleep(arrival.time)
        return await send(url, chance, arrival.prompt_token_count, arrival.output_token_count)

    return await asyncio.gather(*(send_at(arrival) for arrival in arrivals))


def simulated(arrivals: list[Arrival], overhead: float) -> dict[str, list[float]]:
    """Latencies in virtual time, in seconds."""
    scenario = Scenario(
        trace="",
        worker_count=WORKERS,
        max_running_count=RUNNING,
        base_seconds=BASE_SECONDS,
        prefill_seconds_per_token=PREFILL_SECONDS,
        decode_seconds_per_sequence=DECODE_SECONDS,
        overhead_seconds=overhead,
    )
    pool = scenario.play(Traffic(tuple(arrivals)))
    outcomes = list(pool.platform.outcomes.values())
    assert all(outcome.ending is Ending.FINISHED for outcome in outcomes)
    return {
        "ttft": [outcome.ttft for outcome in outcomes],
        "tpot": [outcome.tpot for outcome in outcomes],
        "e2e": [outcome.ended_at - outcome.asked_at for outcome in outcomes],
    }


def measured(outcomes: list[Outcome], arrivals: list[Arrival]) -> dict[str, list[float]]:
    """Latencies of a real platform, in seconds."""
    assert all(outcome.status == OK for outcome in outcomes)
    pairs = list(zip(outcomes, arrivals, strict=True))
    return {
        "ttft": [outcome.ttft for outcome in outcomes],
        "tpot": [(one.end - one.start - one.ttft) / (arrival.output_token_count - 1) for one, arrival in pairs],
        "e2e": [outcome.end - outcome.start for outcome in outcomes],
    }


def compare(per_second: float, rounds: int) -> dict[str, Any]:
    """Plays the trace on a platform, several times, and in virtual time."""
    arrivals = trace(per_second)
    config = (
        f"[worker]\nsim_base_seconds = {BASE_SECONDS}\nsim_prefill_seconds_per_token = {PREFILL_SECONDS}\n"
        f"sim_decode_seconds_per_sequence = {DECODE_SECONDS}\nmax_running_count = {RUNNING}\n"
    )
    real: dict[str, list[float]] = {"ttft": [], "tpot": [], "e2e": []}
    with tempfile.TemporaryDirectory() as name:
        (Path(name) / "platform.toml").write_text(config)
        flags = ["--engine", "sim", "--replicas", str(WORKERS), "--config", f"{name}/platform.toml"]
        with running_platform(Path(name) / "state", flags) as running:
            overhead = asyncio.run(overhead_seconds(running.http))
            for _ in range(rounds):
                for figure, values in measured(asyncio.run(replay(running.http, arrivals)), arrivals).items():
                    real[figure] += values
    virtual = simulated(arrivals, overhead)
    rows = []
    for figure in real:
        for percent in PERCENTILES:
            one, other = percentile(real[figure], percent) or 0.0, percentile(virtual[figure], percent) or 0.0
            name = f"{figure}_p{percent}_ms"
            error = round((other / one - 1) * 100, 1)
            rows.append(
                {
                    "figure": name,
                    "real": round(one * 1e3, 2),
                    "simulated": round(other * 1e3, 2),
                    "error_percent": error,
                }
            )
    return {"requests": REQUESTS, "rounds": rounds, "overhead_ms": round(overhead * 1e3, 2), "rows": rows}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--per-second", type=float, default=4.0)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    found = compare(options.per_second, options.rounds)
    about = f"{machine.machine()}, {os.cpu_count()} cores, Python {machine.python_version()}"
    if not options.json:
        table = Table(box=None, header_style="dim", pad_edge=False)
        for title in ("figure", "real", "simulated", "error, %"):
            table.add_column(title, justify="right")
        for row in found["rows"]:
            table.add_row(*(str(value) for value in row.values()))
        console.print(table)
    print_json({"date": datetime.now(tz=UTC).date().isoformat(), "machine": about} | found)


if __name__ == "__main__":
    main()
