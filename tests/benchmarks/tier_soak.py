"""A day of traffic for the tiers of KV blocks, as fast as the machine goes.

    python -m tests.benchmarks.tier_soak --trace PATH [--hours 24] [--write PATH]

Two workers and a store keep blocks of 4 KiB for 128 tokens each; a digest stands for their computation, and everything
else is the product's. A trace shorter than the time is repeated, shifted to its end. It has lengths alone, so that
conversations are made: a request continues one that fits into its prompt, or begins with the first tokens of its
tenant. Any tier that exceeds its bound fails the run.
"""

import argparse
import asyncio
import os
import platform as machine
import tempfile
import time
from collections import Counter
from pathlib import Path

from tests.harness.kv_tiers.conversations import SYSTEM_TOKENS, TENANT_COUNT, repeated, turns
from tests.harness.kv_tiers.soak_run import MIB, Soak, SoakReport, SoakSizes

from headrace.scheduler.simulation.trace_file import read_trace

HOUR = 3600.0


async def measure(trace: Path, hours: float, folder: Path) -> tuple[SoakReport, float]:
    """Plays the trace for so many hours. Returns the outcome, and the trace's own hours."""
    arrivals = read_trace(trace).arrivals
    soak = Soak(folder, SoakSizes())
    try:
        await soak.run(turns(repeated(arrivals, hours * HOUR), seed=2))
    finally:
        await soak.close()
    return soak.report, arrivals[-1].time / HOUR


def as_markdown(report: SoakReport, own_hours: float, command: str) -> str:
    """The page for docs/results."""
    sizes, total = report.sizes, sum(report.blocks.values())
    bounds = "\n".join(
        f"| {name} | {report.peaks[name]:,} | {bound:,} | {report.peaks[name] / bound:.0%} |"
        for name, bound in report.bounds.items()
    )
    tiers = "\n".join(
        f"| {tier} | {report.blocks[tier]:,} | {report.blocks[tier] / total:.1%} | "
        f"{_shown(report.given_way, tier)} | {_shown(report.lost, tier)} |"
        for tier in ("memory", "disk", "worker", "store", "computed")
    )
    step = max(1, len(report.resident) // 8)
    resident = ", ".join(f"{moment / HOUR:.1f} h: {size:.0f}" for moment, size in report.resident[::step])
    about = f"{time.strftime('%Y-%m-%d', time.gmtime())}, {machine.machine()}, {len(os.sched_getaffinity(0))} cores"
    return f"""# A day of traffic for the tiers of KV blocks

`{command}`, {about}.
{report.traffic_seconds / HOUR:.1f} hours of Azure's conv trace, which has {own_hours:.2f} hours and was repeated,
shifted to its end each time: {report.request_count:,} requests in {report.seconds / 60:.1f} minutes,
{report.traffic_seconds / report.seconds:.0f} times as fast. The trace has lengths and times; its conversations are
made: of five requests, three continue the longest of some open conversations that fit into its prompt, if one does,
and the others begin with {SYSTEM_TOKENS} tokens of one of {TENANT_COUNT} tenants.
Two workers, each with {sizes.memory_blocks:,} blocks of {sizes.block_bytes:,} bytes and {sizes.block_size} tokens in
memory and {sizes.disk_bytes // MIB} MiB on its disk, and a store of {sizes.store_bytes // MIB} MiB;
{report.restart_count} restarts of a worker in between. Blocks found: {report.wrong_count} others than demanded.

| figure | peak | bound | share |
|---|---|---|---|
{bounds}

| tier | blocks of prompts | share | gave way | not written |
|---|---|---|---|---|
{tiers}

MiB of the process that has all of it, by hours of traffic: {resident}. After the first eighth it changed by
{report.warm_growth:+.1f} MiB.
"""


def _shown(counts: Counter[str], tier: str) -> str:
    return f"{counts[tier]:,}" if tier in counts else ""


def main() -> None:
    parser = argparse.ArgumentParser("python -m tests.benchmarks.tier_soak", description=__doc__)
    parser.add_argument("--trace", type=Path, required=True)
    parser.add_argument("--hours", type=float, default=24.0)
    parser.add_argument("--write", type=Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        report, own_hours = asyncio.run(measure(options.trace, options.hours, Path(folder)))
    page = as_markdown(
        report, own_hours, f"python -m tests.benchmarks.tier_soak --trace PATH --hours {options.hours:g}"
    )
    print(page)
    if options.write:
        options.write.write_text(page)
    if report.exceeded or report.wrong_count:
        raise SystemExit(f"beyond their bounds: {report.exceeded}; other blocks than demanded: {report.wrong_count}")


if __name__ == "__main__":
    main()
