"""Headrace against vLLM with a model that needs hardly any time: everything around the engine, as clients see it.

    python -m tests.benchmarks.front_end [--rounds 5] [--folder /tmp/peers]

Both serve one layer of 128 over HTTP on the same cores, in interleaved rounds: one client's time to the first token,
requests per second of 32 clients that want one token, and tokens per second of 64 streams of 64 tokens. Prints medians
and the ratio of ours to vLLM's; ends with one JSON line. vLLM is installed into `--folder` when it is first wanted.
"""

import argparse
import asyncio
import itertools
import json
import os
import platform as machine
import signal
import statistics
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rich.table import Table
from tests.benchmarks.online import US, running_servers
from tests.benchmarks.peers.shapes import LLAMA

from headrace.cli.output import console, print_json
from headrace.load_generator.closed_loop import Workload, run_closed_loop
from headrace.load_generator.report import summarize

SHAPE: dict[str, Any] = LLAMA | {
    "hidden_size": 128,
    "intermediate_size": 256,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "num_key_value_heads": 2,
    "vocab_size": 4096,
    "max_position_embeddings": 2048,
}
INPUT_TOKENS = 16
TTFT, REQUESTS, TOKENS = "first token, ms", "requests/s", "tokens/s"


def summary_of(url: str, request_count: int, clients: int, output_tokens: int, seed: int) -> dict[str, Any]:
    """Loads a server. Raises RuntimeError where a request fails."""
    workload = Workload(url, US, request_count, clients, INPUT_TOKENS, output_tokens, timeout=120, seed=seed)
    summary = summarize(asyncio.run(run_closed_loop(workload)))
    if summary["failed"]:
        raise RuntimeError(f"{summary['failed']} of {request_count} requests to {url} failed: {summary['errors']}")
    return summary


def figures(url: str, seeds: "itertools.count[int]") -> dict[str, float]:
    """Takes the three figures of a server."""
    alone = summary_of(url, 30, 1, 4, next(seeds))
    short = summary_of(url, 256, 32, 1, next(seeds))
    streams = summary_of(url, 128, 64, 64, next(seeds))
    return {
        TTFT: alone["ttft_ms"]["p50"],
        REQUESTS: short["output_tokens_per_second"],
        TOKENS: streams["output_tokens_per_second"],
    }


def measure(servers: Mapping[str, str], rounds: int) -> dict[str, Any]:
    """Every round takes the figures of each server in turn."""
    seeds = itertools.count(1)
    for url in servers.values():
        figures(url, seeds)
    found: dict[str, list[dict[str, float]]] = {name: [] for name in servers}
    for index in range(rounds):
        for name in sorted(servers, reverse=bool(index % 2)):
            found[name].append(figures(servers[name], seeds))
    medians = {
        name: {figure: round(statistics.median(row[figure] for row in rows), 2) for figure in rows[0]}
        for name, rows in found.items()
    }
    ratios = {
        figure: round(
            statistics.median(ours[figure] / theirs[figure] for ours, theirs in zip(*found.values(), strict=True)), 2
        )
        for figure in (TTFT, REQUESTS, TOKENS)
    }
    return {"medians": medians, "ratios": ratios}


def show(result: dict[str, Any]) -> None:
    table = Table(box=None, header_style="dim", title="everything around the engine")
    for column in ("", *result["medians"], "ratio"):
        table.add_column(column, justify="right")
    for figure, ratio in result["ratios"].items():
        table.add_row(figure, *(f"{row[figure]:.1f}" for row in result["medians"].values()), f"{ratio:.2f}")
    console.print(table)


def main() -> None:
    """Starts both servers, measures, prints."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--folder", type=Path, default=Path.home() / ".cache" / "headrace-peers")
    arguments = parser.parse_args()
    arguments.folder.mkdir(parents=True, exist_ok=True)
    shape = arguments.folder / "one-layer.json"
    shape.write_text(json.dumps(SHAPE))
    arguments.shape, arguments.peers, arguments.clients = str(shape), ["vllm"], [64]
    arguments.threads = len(os.sched_getaffinity(0))
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    with running_servers(arguments) as servers:
        result = measure(servers, arguments.rounds)
    facts = {
        "date": datetime.now(UTC).strftime("%Y-%m-%d"),
        "machine": f"{machine.machine()}, {arguments.threads} cores, Python {machine.python_version()}",
        "rounds": arguments.rounds,
    }
    show(result)
    print_json(facts | result)


if __name__ == "__main__":
    main()
