"""The engine alone on a model of a given shape with random weights, which speed does not depend on.

    python -m tests.benchmarks.offline --shape tinyllama-1.1b --precision int4 int8 float32

Every round measures each precision in turn, in processes of their own; medians are printed, and ratios to the last
precision named. Ends with one JSON line.
"""

import argparse
import json
import os
import platform as machine
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rich.table import Table
from tests.benchmarks.peers.shapes import SHAPES, write_checkpoint

from headrace.cli.output import console, print_json
from headrace.engine.loading.load_text_engine import load_text_engine

BATCHES = (1, 4, 16)
PREFILL_TOKENS = 512


def measure(folder: Path, precision: str, threads: int, output_tokens: int) -> dict[str, float]:
    """Prefill and decode rates of one engine, and its memory. Runs in a process of its own."""
    from headrace.engine.contract.engine_config import EngineConfig
    from headrace.engine.contract.request import EngineRequest, SamplingParams

    started = time.monotonic()
    config = EngineConfig.of(
        speculation="off",
        precision=precision,
        thread_count=threads,
        block_count=256,
        max_running_count=16,
        prefix_cache=False,
    )
    engine = load_text_engine(folder, config)
    found = {"load_seconds": time.monotonic() - started}

    def run(count: int, prompt_tokens: int, outputs: int) -> tuple[float, float]:
        """Seconds until all have their first token, and from there to the end."""
        for index in range(count):
            prompt = tuple((index * 31 + position * 7) % 1000 + 3 for position in range(prompt_tokens))
            sampling = SamplingParams(max_tokens=outputs, temperature=0, ignore_eos=True)
            engine.add(EngineRequest(str(index), prompt, sampling))
        begin = time.monotonic()
        first: dict[str, float] = {}
        while engine.has_work():
            for delta in engine.step():
                first.setdefault(delta.request_id, time.monotonic())
        end = time.monotonic()
        return max(first.values()) - begin, end - max(first.values())

    run(1, 16, 2)
    found["prefill_tokens_per_second"] = PREFILL_TOKENS / run(1, PREFILL_TOKENS, 1)[0]
    for count in BATCHES:
        _, seconds = run(count, 16, output_tokens)
        found[f"decode_{count}_tokens_per_second"] = count * (output_tokens - 1) / seconds
    found["peak_memory_mib"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return found


def measure_apart(folder: Path, precision: str, threads: int, output_tokens: int) -> dict[str, float]:
    command = [sys.executable, "-m", "tests.benchmarks.offline", "--worker", str(folder), "--precision", precision]
    command += ["--threads", str(threads), "--output-tokens", str(output_tokens)]
    return dict(json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout))


def compare(arguments: argparse.Namespace) -> dict[str, Any]:
    """Interleaved rounds over all precisions."""
    rows: dict[str, list[dict[str, float]]] = {precision: [] for precision in arguments.precision}
    with tempfile.TemporaryDirectory(prefix="headrace-bench-") as name:
        write_checkpoint(Path(name), SHAPES[arguments.shape])
        for _ in range(arguments.rounds):
            for precision, found in rows.items():
                found.append(measure_apart(Path(name), precision, arguments.threads, arguments.output_tokens))
    medians = {
        precision: {key: round(statistics.median(row[key] for row in found), 2) for key in found[0]}
        for precision, found in rows.items()
    }
    return {
        "date": datetime.now(UTC).strftime("%Y-%m-%d"),
        "machine": f"{machine.machine()}, {os.cpu_count()} cores, Python {machine.python_version()}",
        "shape": arguments.shape,
        "threads": arguments.threads,
        "rounds": arguments.rounds,
        "medians": medians,
    }


def show(result: dict[str, Any], precisions: Sequence[str]) -> None:
    base = result["medians"][precisions[-1]]
    table = Table(box=None, header_style="dim", title=f"{result['shape']}, {result['threads']} threads")
    for title in ("", *precisions, *(f"{name} / {precisions[-1]}" for name in precisions[:-1])):
        table.add_column(title, justify="right")
    for key in base:
        values = [result["medians"][name][key] for name in precisions]
        ratios = [f"{value / base[key]:.2f}" for value in values[:-1]]
        table.add_row(key.replace("_", " "), *(f"{value:.1f}" for value in values), *ratios)
    console.print(table)


def main() -> None:
    """Compares precisions; with --worker measures one, for the parent."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shape", choices=SHAPES, default="smollm2-135m")
    parser.add_argument("--precision", nargs="+", default=["int4", "int8", "float32"])
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--output-tokens", type=int, default=32)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--worker", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.worker is not None:
        print_json(measure(arguments.worker, arguments.precision[0], arguments.threads, arguments.output_tokens))
        return
    result = compare(arguments)
    show(result, arguments.precision)
    print_json(result)


if __name__ == "__main__":
    main()
