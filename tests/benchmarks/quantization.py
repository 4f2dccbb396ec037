"""The engine alone on a model of a given shape with random weights, which speed does not depend on.

    python -m tests.benchmarks.quantization --shape tinyllama-1.1b --precision int4 int8 float32

Every round measures each precision in turn, in processes of their own; medians are printed, and ratios to the last
precision named. With `--against CHECKOUT` each is also measured with the code there, and ratios are to that. Ends with
one JSON line.
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
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rich.table import Table
from tests.benchmarks.peers.shapes import SHAPES, write_checkpoint

from headrace.cli.output import console, print_json
from headrace.engine.loading.load_text_engine import load_text_engine

ROOT = Path(__file__).resolve().parents[2]
THERE = " there"
"""Mark of figures of the other checkout."""
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


def measure_apart(checkout: Path, folder: Path, precision: str, threads: int, output_tokens: int) -> dict[str, float]:
    """Measures with the code of a checkout, whose kernels are compiled."""
    command = [sys.executable, "-m", "tests.benchmarks.quantization", "--worker", str(folder), "--precision", precision]
    command += ["--threads", str(threads), "--output-tokens", str(output_tokens)]
    paths = os.pathsep.join(map(str, (checkout / "libs", checkout / "services", checkout)))
    environment = os.environ | {"PYTHONPATH": paths}
    done = subprocess.run(command, cwd=checkout, env=environment, capture_output=True, text=True, check=True)
    return dict(json.loads(done.stdout))


def compare(arguments: argparse.Namespace) -> dict[str, Any]:
    """Interleaved rounds over all precisions, and over both checkouts where there is another."""
    checkouts = {"": ROOT} if arguments.against is None else {"": ROOT, THERE: arguments.against.resolve()}
    ways = {f"{name}{where}": (checkout, name) for name in arguments.precision for where, checkout in checkouts.items()}
    rows: dict[str, list[dict[str, float]]] = {way: [] for way in ways}
    with tempfile.TemporaryDirectory(prefix="headrace-bench-") as name:
        write_checkpoint(Path(name), SHAPES[arguments.shape])
        for number in range(arguments.rounds):
            # Forth and back: whoever comes first finds another processor than whoever comes after it.
            for way in list(ways)[:: -1 if number % 2 else 1]:
                checkout, precision = ways[way]
                found = measure_apart(checkout, Path(name), precision, arguments.threads, arguments.output_tokens)
                rows[way].append(found)
    medians = {
        way: {key: round(statistics.median(row[key] for row in found), 2) for key in found[0]}
        for way, found in rows.items()
    }
    return {
        "date": datetime.now(UTC).strftime("%Y-%m-%d"),
        "machine": f"{machine.machine()}, {os.cpu_count()} cores, Python {machine.python_version()}",
        "shape": arguments.shape,
        "threads": arguments.threads,
        "rounds": arguments.rounds,
        "medians": medians,
    }


def show(result: dict[str, Any]) -> None:
    """Prints medians, and ratios to the other checkout or to the last precision."""
    medians = result["medians"]
    last = list(medians)[-1]
    bases = {way: f"{way}{THERE}" if f"{way}{THERE}" in medians else last for way in medians}
    compared = {way: base for way, base in bases.items() if way != base and not way.endswith(THERE)}
    table = Table(box=None, header_style="dim", title=f"{result['shape']}, {result['threads']} threads")
    for title in ("", *medians, *(f"{way} / {base}" for way, base in compared.items())):
        table.add_column(title, justify="right")
    for key in medians[last]:
        ratios = [f"{medians[way][key] / medians[base][key]:.2f}" for way, base in compared.items()]
        table.add_row(key.replace("_", " "), *(f"{row[key]:.1f}" for row in medians.values()), *ratios)
    console.print(table)


def main() -> None:
    """Compares precisions; with --worker measures one, for the parent."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shape", choices=SHAPES, default="smollm2-135m")
    parser.add_argument("--precision", nargs="+", default=["int4", "int8", "float32"])
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--output-tokens", type=int, default=32)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--against", type=Path, metavar="CHECKOUT", help="another checkout, with compiled kernels")
    parser.add_argument("--worker", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.worker is not None:
        print_json(measure(arguments.worker, arguments.precision[0], arguments.threads, arguments.output_tokens))
        return
    result = compare(arguments)
    show(result)
    print_json(result)


if __name__ == "__main__":
    main()
