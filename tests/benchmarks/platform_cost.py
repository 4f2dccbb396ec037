"""Cost that the platform adds to the bare engine, with the sim engine, whose step times are known.

    make bench            or: python -m tests.benchmarks.platform_cost [--rounds 5] [--json]

For 1, 16 and 64 streams, interleaved in every round: the bare engine, driven in this process with the same requests,
and the platform over HTTP. Time to first token and inter-token latency added are the differences of their medians.
The ceilings are taken with an engine that needs no time at all.
"""

import argparse
import asyncio
import itertools
import os
import platform as machine
import statistics
import tempfile
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rich.table import Table
from tests.harness.running_platform import running_platform

from headrace.cli.output import console, print_json
from headrace.engine.contract.request import EngineRequest, SamplingParams
from headrace.engine.engines.sim import SimConfig, SimEngine
from headrace.load_generator.closed_loop import Workload, run_closed_loop
from headrace.load_generator.percentile import percentile
from headrace.load_generator.report import summarize

STREAMS = (1, 16, 64)
BASE_SECONDS = 0.010
"""Time of a step of the sim engine: that of a model of about 1 billion parameters on a small GPU."""
PROMPT_TOKENS = 64
OUTPUT_TOKENS = 64


@dataclass(frozen=True)
class Latencies:
    """Medians in milliseconds."""

    ttft: float
    itl: float


def bare_engine(streams: int) -> Latencies:
    """The engine alone: all requests added at once, each token timed when its step returns."""
    engine = SimEngine(SimConfig(base_seconds=BASE_SECONDS, vocabulary_size=2048))
    workload = Workload("", "", streams, streams, PROMPT_TOKENS, OUTPUT_TOKENS, seed=time.time_ns())
    started = time.monotonic()
    for index in range(streams):
        prompt = workload.body(index)["prompt"]
        assert isinstance(prompt, list)
        sampling = SamplingParams(max_tokens=OUTPUT_TOKENS, temperature=0, ignore_eos=True)
        engine.add(EngineRequest(str(index), tuple(prompt), sampling))
    times: dict[str, list[float]] = {}
    while engine.has_work():
        deltas = engine.step()
        now = time.monotonic()
        for delta in deltas:
            times.setdefault(delta.request_id, []).append(now)
    engine.close()
    ttfts = [series[0] - started for series in times.values()]
    itls = [later - earlier for series in times.values() for earlier, later in itertools.pairwise(series)]
    return Latencies(_median_ms(ttfts), _median_ms(itls))


def over_http(url: str, streams: int) -> Latencies:
    """The platform as its clients see it: every client sends one request, all at once."""
    workload = Workload(url, "headrace-demo", streams, streams, PROMPT_TOKENS, OUTPUT_TOKENS, seed=time.time_ns())
    result = asyncio.run(run_closed_loop(workload))
    failed = [record.error for record in result.records if record.error]
    if failed:
        raise SystemExit(f"{len(failed)} requests failed: {failed[0]}")
    ttfts = [record.ttft for record in result.records]
    return Latencies(_median_ms(ttfts), _median_ms([itl for record in result.records for itl in record.itls]))


def measure_cost(folder: Path, rounds: int) -> list[dict[str, Any]]:
    """Interleaved rounds of both, for every number of streams."""
    config = folder / "sim.toml"
    config.write_text(f"[worker]\nsim_base_seconds = {BASE_SECONDS}\n")
    rows = []
    with running_platform(folder / "cost", ["--engine", "sim", "--config", str(config)]) as platform:
        over_http(platform.http, 8)
        for streams in STREAMS:
            repeats = rounds * (8 if streams == 1 else 1)
            pairs = [(bare_engine(streams), over_http(platform.http, streams)) for _ in range(repeats)]
            bare, whole = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
            row: dict[str, Any] = {"streams": streams, "repeats": repeats}
            for name in ("ttft", "itl"):
                alone = statistics.median(getattr(entry, name) for entry in bare)
                served = statistics.median(getattr(entry, name) for entry in whole)
                row[f"{name}_bare_ms"], row[f"{name}_platform_ms"] = round(alone, 2), round(served, 2)
                row[f"{name}_added_ms"] = round(served - alone, 2)
            rows.append(row)
    return rows


def measure_ceilings(folder: Path, rounds: int) -> dict[str, Any]:
    """Requests and tokens per second when the engine takes no time."""
    requests: list[Any] = []
    tokens: list[Any] = []
    with running_platform(folder / "ceiling", ["--engine", "sim"]) as platform:
        for _ in range(rounds):
            for output_tokens, series, key in (
                (1, requests, "requests_per_second"),
                (256, tokens, "output_tokens_per_second"),
            ):
                workload = Workload(platform.http, "headrace-demo", 128, 32, 16, output_tokens, seed=time.time_ns())
                series.append(summarize(asyncio.run(run_closed_loop(workload)))[key])
    return {
        "requests_per_second": round(statistics.median(requests), 1),
        "output_tokens_per_second": round(statistics.median(tokens), 1),
    }


def _median_ms(seconds: list[float]) -> float:
    return (percentile(seconds, 50) or 0.0) * 1000


def _show(result: dict[str, Any]) -> None:
    table = Table(box=None, header_style="dim", title="added by the platform, medians in ms", title_justify="left")
    columns = ["streams", "ttft_bare_ms", "ttft_platform_ms", "ttft_added_ms", "itl_bare_ms", "itl_platform_ms"]
    for name in [*columns, "itl_added_ms"]:
        table.add_column(name.removesuffix("_ms").replace("_", " "), justify="right")
    for row in result["cost"]:
        table.add_row(*(str(row[name]) for name in [*columns, "itl_added_ms"]))
    console.print(table)
    ceilings = result["ceilings"]
    console.print(
        f"\nceilings, 32 clients, engine without step time: {ceilings['requests_per_second']} requests/s, "
        f"{ceilings['output_tokens_per_second']} tokens/s\n"
    )


def main() -> None:
    """Runs it and prints a table, then one JSON line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", action="store_true", help="print the JSON line only")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="headrace-bench-") as folder:
        result: dict[str, Any] = {
            "date": datetime.now(UTC).strftime("%Y-%m-%d"),
            "machine": f"{machine.machine()}, {os.cpu_count()} cores, Python {machine.python_version()}",
            "step_seconds": BASE_SECONDS,
            "cost": measure_cost(Path(folder), arguments.rounds),
            "ceilings": measure_ceilings(Path(folder), arguments.rounds),
        }
    if not arguments.json:
        _show(result)
    print_json(result)


if __name__ == "__main__":
    main()
