"""Workers that vLLM computes for, against vLLM's own server with the same settings.

    HEADRACE_VLLM_PYTHON=.vllm/bin/python python -m tests.benchmarks.vllm_seam [--rounds 5] [--shape smollm2-135m]

Both serve the same checkpoint in fp32 on the same cores, in interleaved rounds: one client's time to the first token,
and tokens per second of 16 streams. Prints medians, what we add to the first token, and the ratio of rates; ends with
one JSON line.
"""

import argparse
import itertools
import os
import platform as machine
import signal
import statistics
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tests.benchmarks.front_end import summary_of
from tests.benchmarks.online import US
from tests.benchmarks.peers.shapes import read_shape, write_checkpoint
from tests.benchmarks.peers.tokenizer_file import write_tokenizer
from tests.benchmarks.peers.vllm_server import running_vllm_server
from tests.harness.running_platform import running_platform

from headrace.cli.output import console, print_json

START_SECONDS = 600.0
CLIENTS, OUTPUT_TOKENS = 16, 64
BARE = "vllm"


@contextmanager
def both(arguments: argparse.Namespace, python: Path) -> Iterator[dict[str, str]]:
    """Runs both, and yields their addresses."""
    config = read_shape(arguments.shape)
    checkpoint = arguments.folder / arguments.shape
    if not (checkpoint / "config.json").exists():
        write_checkpoint(checkpoint, config)
    if not (checkpoint / "tokenizer.json").exists():
        write_tokenizer(checkpoint / "tokenizer.json", config["vocab_size"])
    threads = len(os.sched_getaffinity(0))
    cache = arguments.folder / "vllm-cache"
    with tempfile.TemporaryDirectory(prefix="headrace-seam-") as name:
        settings = Path(name) / "headrace.toml"
        settings.write_text(
            f"[worker]\nmax_running_count = {CLIENTS}\nprefix_cache = false\nkv_cache_bytes = {4 * 1024**3}\n"
            'vllm_arguments = {dtype = "float32"}\n'
        )
        options = ["--engine", "vllm", "--worker-python", str(python), "--config", str(settings), f"{US}={checkpoint}"]
        with (
            running_platform(Path(name) / "state", options, START_SECONDS) as ours,
            running_vllm_server(python, checkpoint, "float32", threads, CLIENTS, US, cache) as theirs,
        ):
            yield {US: ours.http, BARE: theirs}


def measure(servers: dict[str, str], rounds: int) -> dict[str, Any]:
    """Alternates between both."""
    seeds = itertools.count(1)
    ttfts: dict[str, list[float]] = {name: [] for name in servers}
    rates: dict[str, list[float]] = {name: [] for name in servers}
    for index in range(rounds + 1):
        for name in sorted(servers, reverse=bool(index % 2)):
            alone = summary_of(servers[name], 12, 1, 4, next(seeds))["ttft_ms"]["p50"]
            streams = summary_of(servers[name], 2 * CLIENTS, CLIENTS, OUTPUT_TOKENS, next(seeds))
            if index:  # the first round warms both up
                ttfts[name].append(alone)
                rates[name].append(streams["output_tokens_per_second"])
    pairs = list(zip(rates[US], rates[BARE], strict=True))
    return {
        "ttft_ms": {name: round(statistics.median(values), 2) for name, values in ttfts.items()},
        "tokens_per_second": {name: round(statistics.median(values), 1) for name, values in rates.items()},
        "ttft_added_ms": round(statistics.median(a - b for a, b in zip(ttfts[US], ttfts[BARE], strict=True)), 2),
        "rate_ratio": round(statistics.median(ours / theirs for ours, theirs in pairs), 3),
    }


def main() -> None:
    """Starts both, measures, prints."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--shape", default="smollm2-135m")
    parser.add_argument("--folder", type=Path, default=Path.home() / ".cache" / "headrace-peers")
    arguments = parser.parse_args()
    python = os.environ.get("HEADRACE_VLLM_PYTHON")
    if python is None:
        raise SystemExit("HEADRACE_VLLM_PYTHON is not set: run make bench-vllm, which installs vLLM and sets it")
    arguments.folder.mkdir(parents=True, exist_ok=True)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    with both(arguments, Path(python).absolute()) as servers:
        result = measure(servers, arguments.rounds)
    facts = {
        "date": datetime.now(UTC).strftime("%Y-%m-%d"),
        "machine": f"{machine.machine()}, {len(os.sched_getaffinity(0))} cores",
        "shape": arguments.shape,
        "rounds": arguments.rounds,
    }
    for name, value in (facts | result).items():
        console.print(f"{name:18} {value}")
    print_json(facts | result)


if __name__ == "__main__":
    main()
