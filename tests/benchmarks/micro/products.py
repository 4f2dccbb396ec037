"""Products with coded weights, in billions of operations per second, by rows and instruction set:

    python -m tests.benchmarks.micro.products [--threads 1] [--rounds 12] [--rows 1 4 16] [--libraries OLD.so NEW.so]

Medians of all rounds, in which sets take turns; builds of the kernels take turns too, each in a process of its own.
Matrices of a feed-forward block, of 100 MB together, take turns as well, so that no cache holds them.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import time

import numpy as np

from headrace.cli.output import console
from headrace.engine.kernels.context import KernelContext
from headrace.engine.kernels.library import LIBRARY_VARIABLE, Instructions, available
from headrace.engine.kernels.library import PATH as OWN
from headrace.engine.kernels.packed_weight import PackedWeight, pack_codes
from headrace.engine.kernels.storage import Storage
from headrace.engine.memory.aligned import address

SHAPE = (11_264, 2048)
WEIGHT_BYTES = 100_000_000
ROWS = (1, 2, 3, 4, 6, 8, 12, 16, 32, 64, 128)
KINDS = {"int4": (Storage.U4, 16, 8), "int8": (Storage.U8, 256, 128)}
"""Storage, number of codes and zero point of each kind of weights."""
TURNS = 3
"""Processes of each build."""


def random_weights(kind: str, group: int) -> list[PackedWeight]:
    """Matrices that take more memory than a processor's caches."""
    storage, code_count, zero = KINDS[kind]
    draw = np.random.default_rng(0)
    groups = SHAPE[0], SHAPE[1] // group
    scales, zeros, rows = np.ones(groups, np.float32), np.full(groups, zero, np.uint8), np.arange(SHAPE[0])
    codes = draw.integers(0, code_count, SHAPE, dtype=np.uint8)
    first = pack_codes(codes, scales, zeros, storage, rows)
    count = WEIGHT_BYTES // first.byte_count + 1
    return [first, *(pack_codes(codes, scales, zeros, storage, rows) for _ in range(1, count))]


def measure(arguments: argparse.Namespace) -> dict[str, list[float]]:
    """Billions of operations per second, a number for each count of rows, by kind of weights and instruction set."""
    context = KernelContext(arguments.threads)
    sets = [each for each in available() if each > Instructions.PORTABLE]
    operations = 2 * SHAPE[0] * SHAPE[1] / 1e9
    found: dict[str, list[float]] = {}
    for kind in KINDS:
        weights = random_weights(kind, arguments.group)
        for rows in arguments.rows:
            inputs = np.random.default_rng(1).standard_normal((rows, SHAPE[1])).astype(np.float32)
            outputs = np.zeros((rows, SHAPE[0]), np.float32)
            seconds: dict[Instructions, list[float]] = {each: [] for each in sets}
            for number in range(arguments.rounds * len(sets)):
                context.instructions = sets[number % len(sets)]
                matrix = weights[number % len(weights)].matrix(exact=False)
                started = time.perf_counter()
                context.multiply(matrix, address(inputs), None, address(outputs), rows)
                seconds[context.instructions].append(time.perf_counter() - started)
            for each, times in seconds.items():
                rate = rows * operations / statistics.median(times)
                found.setdefault(f"{kind}, {each.name}", []).append(rate)
    return found


def measure_apart(library: str) -> dict[str, list[float]]:
    """Measures a build of the kernels in a process of its own."""
    command = [sys.executable, "-m", "tests.benchmarks.micro.products", *sys.argv[1:], "--once"]
    done = subprocess.run(
        command, env=os.environ | {LIBRARY_VARIABLE: library}, capture_output=True, check=True, timeout=600
    )
    return dict(json.loads(done.stdout))


def main() -> None:
    """Measures and prints a Markdown table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--rows", nargs="+", type=int, default=list(ROWS))
    parser.add_argument("--group", type=int, default=128, help="columns that share a scale")
    parser.add_argument("--libraries", nargs="+", default=[str(OWN)])
    parser.add_argument("--once", action="store_true", help="measure once here, and print one line of JSON")
    arguments = parser.parse_args()
    if arguments.once:
        print(json.dumps(measure(arguments)))
        return
    turns: dict[str, list[dict[str, list[float]]]] = {library: [] for library in arguments.libraries}
    for _ in range(TURNS):
        for library, results in turns.items():
            results.append(measure_apart(library))
    console.print("| weights, set | " + " | ".join(map(str, arguments.rows)) + " |", soft_wrap=True)
    console.print("|---" * (len(arguments.rows) + 1) + "|")
    for library, results in turns.items():
        for name in results[0]:
            rates = [statistics.median(each) for each in zip(*(result[name] for result in results), strict=True)]
            which = f"{name} of {library}" if len(turns) > 1 else name
            console.print(f"| {which} | " + " | ".join(f"{rate:.0f}" for rate in rates) + " |", soft_wrap=True)


if __name__ == "__main__":
    main()
