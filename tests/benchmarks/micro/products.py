"""Products with weights in every storage, against what the machine can read at the moment.

    python -m tests.benchmarks.micro.products [--out-size 5632] [--in-size 2048] [--rows 1 4 16 64 512]

For each storage and number of rows: GB/s of weights read and billions of operations per second (two for each weight
and row), the best of several repeats, over weights that no cache holds. The read bandwidth is probed before each
storage. Ends with one JSON line.
"""

import argparse
import os
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace

import torch
from rich.table import Table
from tests.benchmarks.peers.probe import read_bandwidth

from headrace.cli.output import console, print_json
from headrace.engine.checkpoints.weights import round_to_nearest
from headrace.engine.cpu.weights.packing import pack
from headrace.engine.kernels.context import KernelContext
from headrace.engine.kernels.packed_weight import PackedWeight
from headrace.engine.memory.aligned import allocate

CODE_BITS = {"u4": 4, "s8": 8}
PLAIN = {"bf16": torch.bfloat16, "f32": torch.float32}
WAYS = (("u4", False), ("u4", True), ("s8", False), ("s8", True), ("bf16", True), ("f32", True))
"""Storage, and whether inputs are left as they are. Plain weights know no other way."""
GROUP = 128
UNCACHED_BYTES = 128 << 20
"""Bytes of all copies of the weight, which take turns."""
REPEAT_SECONDS = 0.15
REPEATS = 4


@dataclass(frozen=True, slots=True)
class Rate:
    """Rates that one product reaches."""

    storage: str
    exact: bool
    rows: int
    gigabytes_per_second: float
    gigaoperations_per_second: float
    read_bandwidth: float
    """Read bandwidth of the machine in GB/s, probed in the same minute."""


def make_copies(storage: str, out_size: int, in_size: int) -> list[PackedWeight]:
    """Packs one weight into as many places as no cache holds."""
    weight = torch.randn(out_size, in_size) * 0.02
    if storage in PLAIN:
        packed = pack(weight.to(PLAIN[storage]))
    else:
        packed = pack(round_to_nearest.quantize(weight, CODE_BITS[storage], GROUP, symmetric=False))
    count = max(1, -(-UNCACHED_BYTES // packed.byte_count))
    return [packed, *(_copy(packed) for _ in range(count - 1))]


def measure(context: KernelContext, copies: Sequence[PackedWeight], rows: int, *, exact: bool) -> float:
    """Seconds of one product, the best of several repeats."""
    inputs, best = torch.randn(rows, copies[0].in_size).numpy(), float("inf")
    for _ in range(REPEATS):
        count, started = 0, time.perf_counter()
        while (elapsed := time.perf_counter() - started) < REPEAT_SECONDS or not count:
            context.product(copies[count % len(copies)], inputs, exact=exact)
            count += 1
        best = min(best, elapsed / count)
    return best


def compare(arguments: argparse.Namespace) -> list[Rate]:
    """Each storage in turn, with all numbers of rows."""
    context, found = KernelContext(arguments.threads), []
    for storage, exact in WAYS:
        bandwidth = read_bandwidth(arguments.threads)
        copies = make_copies(storage, arguments.out_size, arguments.in_size)
        for rows in arguments.rows:
            seconds = measure(context, copies, rows, exact=exact)
            operations = 2 * rows * arguments.out_size * arguments.in_size
            gigabytes, gigaoperations = copies[0].byte_count / seconds / 1e9, operations / seconds / 1e9
            found.append(Rate(storage, exact, rows, round(gigabytes, 2), round(gigaoperations, 1), round(bandwidth, 1)))
    return found


def show(rates: Sequence[Rate]) -> None:
    table = Table(box=None, header_style="dim")
    for title in ("storage", "inputs", "rows", "GB/s", "of what can be read", "GOP/s"):
        table.add_column(title, justify="right")
    for rate in rates:
        share = f"{rate.gigabytes_per_second / rate.read_bandwidth:.0%}"
        inputs = "exact" if rate.exact else "8 bits"
        cells = (f"{rate.gigabytes_per_second:.1f}", share, f"{rate.gigaoperations_per_second:.0f}")
        table.add_row(rate.storage, inputs, str(rate.rows), *cells)
    console.print(table)


def _copy(weight: PackedWeight) -> PackedWeight:
    panels = allocate(weight.byte_count)
    panels[:] = weight.panels
    return replace(weight, panels=panels)


def main() -> None:
    """Measures and prints."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out-size", type=int, default=5632)
    parser.add_argument("--in-size", type=int, default=2048)
    parser.add_argument("--rows", type=int, nargs="+", default=[1, 4, 16, 64, 512])
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    arguments = parser.parse_args()
    rates = compare(arguments)
    show(rates)
    sizes = {"out_size": arguments.out_size, "in_size": arguments.in_size, "threads": arguments.threads}
    print_json(sizes | {"rates": [asdict(rate) for rate in rates]})


if __name__ == "__main__":
    main()
