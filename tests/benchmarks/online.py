"""Headrace against other servers as clients see them: streaming completions over HTTP, in interleaved rounds.

    python -m tests.benchmarks.online [--shape tinyllama-1.1b] [--rounds 5] [--peers llama-server vllm]

`--shape` takes a name or the path of a config.json; weights are random, in 4 bits (vLLM: in fp32, where it has no int4
kernels for the processor). Peers are set up in `--folder` when they are first wanted. Prompts are token ids, each
different from its first token on, 128 in and 64 out; nothing is guessed ahead and no prompt is kept. Prints medians
over the rounds and ratios to the best peer; ends with one JSON line.
"""

import argparse
import asyncio
import contextlib
import itertools
import os
import platform as machine
import signal
import statistics
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch
from rich.table import Table
from tests.benchmarks.peers.environment import llama_cpp_tools, vllm_python
from tests.benchmarks.peers.gguf_checkpoint import write_gguf
from tests.benchmarks.peers.llama_server import running_llama_server
from tests.benchmarks.peers.probe import read_bandwidth
from tests.benchmarks.peers.shapes import read_shape, write_awq_checkpoint, write_checkpoint
from tests.benchmarks.peers.tokenizer_file import write_tokenizer
from tests.benchmarks.peers.vllm_server import running_vllm_server
from tests.harness.running_platform import running_platform

from headrace.cli.output import console, print_json
from headrace.load_generator.closed_loop import Workload, run_closed_loop
from headrace.load_generator.report import summarize

SLOTS = 16
INPUT_TOKENS, OUTPUT_TOKENS = 128, 64
REQUESTS_PER_CLIENT = 2
US = "headrace"
THROUGHPUT = "output tok/s"
FIGURES = (THROUGHPUT, "TTFT, ms", "ITL, ms")
"""Names of the figures. All but the first are medians."""


@contextlib.contextmanager
def running_servers(arguments: argparse.Namespace) -> Iterator[Mapping[str, str]]:
    """Both servers with the same shape, as addresses by name. Writes the checkpoints first."""
    config, name = read_shape(arguments.shape), Path(arguments.shape).name.removesuffix(".json")
    checkpoint, gguf_file = arguments.folder / name, arguments.folder / f"{name}.gguf"
    if not (checkpoint / "config.json").exists():
        write_checkpoint(checkpoint, config)
    if not (checkpoint / "tokenizer.json").exists():
        write_tokenizer(checkpoint / "tokenizer.json", config["vocab_size"])
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="headrace-bench-")))
        settings = folder / "worker.toml"
        settings.write_text(f'[worker]\nspeculation = "off"\nthread_count = {arguments.threads}\n')
        options = ["--precision", "int4", "--config", str(settings), f"{US}={checkpoint}"]
        servers = {US: stack.enter_context(running_platform(folder / "state", options)).http}
        slots = max(SLOTS, *arguments.clients)
        if "llama-server" in arguments.peers:
            if not gguf_file.exists():
                write_gguf(gguf_file, config)
            program = llama_cpp_tools(arguments.folder) / "llama-server"
            context_tokens = INPUT_TOKENS + 2 * OUTPUT_TOKENS
            server = running_llama_server(program, gguf_file, arguments.threads, slots, context_tokens)
            servers["llama-server"] = stack.enter_context(server)
        if "vllm" in arguments.peers:
            python, cache = vllm_python(arguments.folder), arguments.folder / "vllm-cache"
            source, dtype = vllm_checkpoint(checkpoint, config)
            server = running_vllm_server(python, source, dtype, arguments.threads, slots, US, cache)
            servers["vllm"] = stack.enter_context(server)
        yield servers


def vllm_checkpoint(checkpoint: Path, config: dict[str, Any]) -> tuple[Path, str]:
    """Checkpoint that vLLM is given, and the type that it computes with: AWQ where it has int4 kernels."""
    if not torch.backends.cpu.get_cpu_capability().startswith("AVX512"):
        return checkpoint, "float32"
    source = checkpoint.with_name(f"{checkpoint.name}-awq")
    if not (source / "config.json").exists():
        write_awq_checkpoint(source, config)
    if not (source / "tokenizer.json").exists():
        write_tokenizer(source / "tokenizer.json", config["vocab_size"])
    return source, "bfloat16"


def load(url: str, clients: int, seed: int) -> dict[str, float]:
    """Measures what `clients` concurrent clients see. Raises RuntimeError where a request fails."""
    count = clients * REQUESTS_PER_CLIENT
    workload = Workload(url, US, count, clients, INPUT_TOKENS, OUTPUT_TOKENS, timeout=600, seed=seed)
    summary = summarize(asyncio.run(run_closed_loop(workload)))
    if summary["failed"]:
        raise RuntimeError(f"{summary['failed']} of {count} requests to {url} failed: {summary['errors']}")
    values = (summary["output_tokens_per_second"], summary["ttft_ms"]["p50"], summary["itl_ms"]["p50"])
    return dict(zip(FIGURES, values, strict=True))


def measure(servers: Mapping[str, str], client_counts: Sequence[int], rounds: int, threads: int) -> dict[str, Any]:
    """Every round loads each server in turn with each number of clients."""
    rows: dict[str, dict[int, list[dict[str, float]]]] = {
        name: {count: [] for count in client_counts} for name in servers
    }
    bandwidths = []
    seeds = itertools.count(1)
    for url in servers.values():
        load(url, 1, next(seeds))
    for _ in range(rounds):
        bandwidths.append(round(read_bandwidth(threads), 1))
        for clients in client_counts:
            for name, url in servers.items():
                rows[name][clients].append(load(url, clients, next(seeds)))
    medians = {
        name: {
            str(clients): {figure: round(statistics.median(row[figure] for row in found), 2) for figure in FIGURES}
            for clients, found in by_clients.items()
        }
        for name, by_clients in rows.items()
    }
    return {"read_bandwidth_gb_per_second": sorted(bandwidths), "medians": medians}


def show(result: dict[str, Any]) -> None:
    medians = result["medians"]
    table = Table(box=None, header_style="dim", title=f"{result['shape']}, int4, {result['threads']} threads")
    for column in ("clients", "", *medians, "to the best peer"):
        table.add_column(column, justify="right")
    for clients in next(iter(medians.values())):
        for figure in FIGURES:
            ours, *others = (medians[name][clients][figure] for name in medians)
            best = (max if figure == THROUGHPUT else min)(others, default=ours)
            table.add_row(clients, figure, *(f"{value:.1f}" for value in (ours, *others)), f"{ours / best:.2f}")
    console.print(table)


def main() -> None:
    """Starts the servers, measures, prints."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shape", default="tinyllama-1.1b")
    parser.add_argument("--clients", type=int, nargs="+", default=[1, 4, 16])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--peers", nargs="*", default=["llama-server"])
    parser.add_argument("--folder", type=Path, default=Path.home() / ".cache" / "headrace-peers")
    arguments = parser.parse_args()
    arguments.folder.mkdir(parents=True, exist_ok=True)
    # So that servers are stopped and files removed then too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    with running_servers(arguments) as servers:
        found = measure(servers, arguments.clients, arguments.rounds, arguments.threads)
    facts = {
        "date": datetime.now(UTC).strftime("%Y-%m-%d"),
        "machine": f"{machine.machine()}, {os.cpu_count()} cores",
        "shape": arguments.shape,
        "threads": arguments.threads,
        "rounds": arguments.rounds,
    }
    show(facts | found)
    print_json(facts | found)


if __name__ == "__main__":
    main()
