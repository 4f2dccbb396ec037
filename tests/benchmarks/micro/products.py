"""Products with coded weights, in billions of operations per second, by rows and instruction set:

    python -m tests.benchmarks.micro.products [--threads 1] [--rounds 12]

The best of all rounds, in which sets take turns. The weights are six matrices of a feed-forward block, so that few rows
read them from memory.
"""

import argparse
import time

import numpy as np

from headrace.cli.output import console
from headrace.engine.kernels.context import KernelContext
from headrace.engine.kernels.library import Instructions, available
from headrace.engine.kernels.packed_weight import PackedWeight, pack_codes
from headrace.engine.kernels.storage import Storage

SHAPE = (11_264, 2048)
GROUP = 128
MATRIX_COUNT = 6
ROWS = (1, 2, 3, 4, 6, 8, 12, 16, 32, 64, 128)
KINDS = {"int4": (Storage.U4, 16, 8), "int8": (Storage.U8, 256, 128)}
"""Storage, number of codes and zero point of each kind of weights."""


def random_weights(kind: str) -> list[PackedWeight]:
    storage, code_count, zero = KINDS[kind]
    draw = np.random.default_rng(0)
    groups = SHAPE[0], SHAPE[1] // GROUP
    scales, zeros, rows = np.ones(groups, np.float32), np.full(groups, zero, np.uint8), np.arange(SHAPE[0])
    codes = [draw.integers(0, code_count, SHAPE, dtype=np.uint8) for _ in range(MATRIX_COUNT)]
    return [pack_codes(each, scales, zeros, storage, rows) for each in codes]


def measure(kind: str, threads: int, rounds: int) -> dict[Instructions, dict[int, float]]:
    """Billions of operations per second, by instruction set and rows."""
    context, weights = KernelContext(threads), random_weights(kind)
    sets = [each for each in available() if each > Instructions.PORTABLE]
    best = {each: dict.fromkeys(ROWS, float("inf")) for each in sets}
    for rows in ROWS:
        inputs = np.random.default_rng(1).standard_normal((rows, SHAPE[1])).astype(np.float32)
        for number in range(rounds):
            for each in sets:
                started = time.perf_counter()
                context.product(weights[number % MATRIX_COUNT], inputs, instructions=each)
                best[each][rows] = min(best[each][rows], time.perf_counter() - started)
    operations = 2 * SHAPE[0] * SHAPE[1] / 1e9
    return {
        each: {rows: rows * operations / seconds for rows, seconds in found.items()} for each, found in best.items()
    }


def main() -> None:
    """Measures and prints a Markdown table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=12)
    arguments = parser.parse_args()
    console.print("| weights, set | " + " | ".join(map(str, ROWS)) + " |", soft_wrap=True)
    console.print("|---" * (len(ROWS) + 1) + "|")
    for kind in KINDS:
        for each, found in measure(kind, arguments.threads, arguments.rounds).items():
            cells = " | ".join(f"{rate:.0f}" for rate in found.values())
            console.print(f"| {kind}, {each.name} | {cells} |", soft_wrap=True)


if __name__ == "__main__":
    main()
