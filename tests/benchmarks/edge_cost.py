"""Cost of everything that the edge can do: keys, limits, usage, filter and traces, against none of it.

    python -m tests.benchmarks.edge_cost [--rounds 8] [--only filter] [--json]

Two platforms with the sim engine run side by side, one with everything on, or what `--only` names. Rounds alternate
between them: the time to the first token of one stream, tokens per second of 64 streams at the pace of a model, and of
32 clients when the engine takes no time, for answers of one token and of 64. Ratios are taken round by round. Spans go
to a collector in a process of its own, which reads and drops them.
"""

import argparse
import asyncio
import contextlib
import json
import os
import platform as machine
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psutil
from tests.harness.running_platform import RunningPlatform, running_platform

from headrace.access.key_file import KeyFile
from headrace.access.key_record import KeyLimits
from headrace.cli.output import console, print_json
from headrace.load_generator.closed_loop import Workload, run_closed_loop
from headrace.load_generator.percentile import percentile
from headrace.load_generator.report import summarize

MODEL = "headrace-demo"
STEP_SECONDS = 0.010
STREAMS = 64
"""Streams at once of an engine that takes STEP_SECONDS for a step, as a model does."""
DETECTORS = ["card", "iban", "phone", "secret"]
ADDRESSES = "email"
"""Detector that holds back every word until it cannot become an address: the time of a token, not of the gateway."""
AMPLE = 10**9
PARTS = ("keys", "limits", "usage", "filter", "traces", "addresses")
COLLECTOR = """
import concurrent.futures, grpc, sys
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2 as pb, trace_service_pb2_grpc as rpc
class Sink(rpc.TraceServiceServicer):
    def Export(self, request, context):
        return pb.ExportTraceServiceResponse()
server = grpc.server(concurrent.futures.ThreadPoolExecutor(2))
rpc.add_TraceServiceServicer_to_server(Sink(), server)
print(server.add_insecure_port("127.0.0.1:0"), flush=True)
server.start()
sys.stdin.read()
"""


@dataclass(frozen=True)
class Edge:
    """A platform, and the key that it asks for."""

    platform: RunningPlatform
    key: str

    def load(self, request_count: int, concurrency: int, output_tokens: int) -> Any:
        url, seed = self.platform.http, time.time_ns()
        workload = Workload(url, MODEL, request_count, concurrency, 16, output_tokens, seed=seed, key=self.key)
        result = asyncio.run(run_closed_loop(workload))
        failed = [record.error for record in result.records if record.error]
        if failed:
            raise SystemExit(f"{len(failed)} requests failed: {failed[0]}")
        return result

    def cpu_ms(self, request_count: int, output_tokens: int) -> float:
        """Measures the processor time of all services for one request: other programs disturb it less than a rate."""
        before = self._cpu_seconds()
        self.load(request_count, 32, output_tokens)
        return (self._cpu_seconds() - before) / request_count * 1000

    def _cpu_seconds(self) -> float:
        top = psutil.Process(self.platform.process.pid)
        times = [each.cpu_times() for each in top.children(recursive=True)]
        return sum(each.user + each.system for each in times)

    def ttft_ms(self) -> float:
        return (percentile([record.ttft for record in self.load(20, 1, 4).records], 50) or 0.0) * 1000


@contextlib.contextmanager
def collector() -> Iterator[str]:
    """Runs a collector that drops what it gets, and yields its address."""
    command = [sys.executable, "-c", COLLECTOR]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        yield f"127.0.0.1:{process.stdout.readline().strip()}"
        process.terminate()


@contextlib.contextmanager
def edges(folder: Path, step_seconds: float, parts: Sequence[str]) -> Iterator[tuple[Edge, Edge]]:
    """Runs both platforms: with nothing on, and with everything."""
    worker = f"[worker]\nsim_base_seconds = {step_seconds}\n"
    personal = [*DETECTORS, ADDRESSES] if "addresses" in parts else DETECTORS
    table = f'[default]\npersonal = {json.dumps(personal)}\nwords = ["tiny secret"]\ninput = false\n'
    (folder / "filters.toml").write_text(table)
    ample = KeyLimits(requests_per_minute=AMPLE, tokens_per_minute=AMPLE, concurrency=AMPLE)
    limits = ample if "limits" in parts else KeyLimits()
    key, _record = KeyFile(folder / "keys.json").create("bench", limits=limits)
    with collector() as spans, contextlib.ExitStack() as stack:
        for name, more in (("off", ""), ("on", _settings(folder, spans, parts))):
            (folder / f"{name}.toml").write_text(f"{worker}{more}")
        started = [
            stack.enter_context(
                running_platform(folder / name, ["--engine", "sim", "--config", str(folder / f"{name}.toml")])
            )
            for name in ("off", "on")
        ]
        yield Edge(started[0], ""), Edge(started[1], key.text)


def _settings(folder: Path, spans: str, parts: Sequence[str]) -> str:
    lines = []
    if "traces" in parts:
        # The first line belongs to the table of the worker, which comes before.
        services = ("tokenizer", "scheduler", "cache", "gateway")
        lines += [f'otlp_endpoint = "{spans}"', *(f'[{name}]\notlp_endpoint = "{spans}"' for name in services)]
    else:
        lines.append("[gateway]")
    if "keys" in parts or "limits" in parts:
        lines.append(f'keys_file = "{folder}/keys.json"')
    if "usage" in parts:
        lines.append(f'usage_folder = "{folder}/usage"')
    if "filter" in parts or "addresses" in parts:
        lines.append(f'filters_file = "{folder}/filters.toml"')
    return "\n".join(lines) + "\n"


def measure(rounds: int, parts: Sequence[str]) -> dict[str, Any]:
    """Alternates between both, and compares round by round."""
    with (
        tempfile.TemporaryDirectory(prefix="headrace-edge-") as name,
        edges(Path(name), STEP_SECONDS, parts) as (off, on),
    ):
        for edge in (off, on):
            edge.ttft_ms()
        ttfts = [(off.ttft_ms(), on.ttft_ms()) for _ in range(rounds)]
        paced = [_rate(on, 64, STREAMS) / _rate(off, 64, STREAMS) for _ in range(rounds)]
    rates: dict[int, list[float]] = {1: [], 64: []}
    works: dict[int, list[tuple[float, float]]] = {1: [], 64: []}
    with _folder() as name, edges(Path(name), 0.0, parts) as (off, on):
        for index in range(rounds):
            for output_tokens, ratios in rates.items():
                order = (off, on) if index % 2 else (on, off)
                speeds = {id(edge): _rate(edge, output_tokens) for edge in order}
                ratios.append(speeds[id(on)] / speeds[id(off)])
                works[output_tokens].append((off.cpu_ms(256, output_tokens), on.cpu_ms(256, output_tokens)))
    return {
        "date": datetime.now(UTC).strftime("%Y-%m-%d"),
        "machine": f"{machine.machine()}, {os.cpu_count()} cores, Python {machine.python_version()}",
        "rounds": rounds,
        "on": " ".join(parts),
        "ttft_off_ms": round(statistics.median(pair[0] for pair in ttfts), 2),
        "ttft_on_ms": round(statistics.median(pair[1] for pair in ttfts), 2),
        "ttft_added_ms": round(statistics.median(pair[1] - pair[0] for pair in ttfts), 2),
        **{
            f"cpu_{count}_tokens_{name}_ms": round(statistics.median(pair[index] for pair in works[count]), 3)
            for count in works
            for index, name in enumerate(("off", "on"))
        },
        "paced_streams_ratio": round(statistics.median(paced), 3),
        "requests_ratio": round(statistics.median(rates[1]), 3),
        "tokens_ratio": round(statistics.median(rates[64]), 3),
    }


def _folder() -> "tempfile.TemporaryDirectory[str]":
    return tempfile.TemporaryDirectory(prefix="headrace-edge-")


def _rate(edge: Edge, output_tokens: int, clients: int = 32) -> float:
    return float(summarize(edge.load(128, clients, output_tokens))["output_tokens_per_second"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--only", nargs="+", choices=PARTS, default=PARTS)
    parser.add_argument("--json", action="store_true", help="print the JSON line only")
    arguments = parser.parse_args()
    result = measure(arguments.rounds, arguments.only)
    if not arguments.json:
        for name, value in result.items():
            console.print(f"{name:16} {value}")
    print_json(result)


if __name__ == "__main__":
    main()
