"""Faults in all tiers of KV blocks at once, and what becomes of each kind.

    python -m tests.benchmarks.kv_faults [--faults 1000000] [--alone 1000] [--minutes 60] [--write PATH]

Workers with a memory, a disk, other workers and the shared store are asked for prompts while faults of eleven kinds
happen to their blocks. Each block that a request begins with is compared with the one that its tokens, tenant, adapter
and weights demand. Each kind is then injected alone, which shows how the product ends it.
"""

import argparse
import asyncio
import os
import platform as machine
import tempfile
import time
from pathlib import Path

from tests.harness.kv_tiers.fault_kinds import TIERS, Kind
from tests.harness.kv_tiers.fault_run import FaultReport, FaultSettings, run_faults

COLUMNS = ("memory", "disk", "worker", "store")


def measure(count: int, alone_count: int, minutes: float) -> tuple[FaultReport, dict[Kind, FaultReport]]:
    """Runs all kinds at once, for so many minutes at most, and each of them alone."""

    def run(settings: FaultSettings) -> FaultReport:
        with tempfile.TemporaryDirectory() as folder:
            return asyncio.run(run_faults(settings, Path(folder)))

    alone = {kind: run(FaultSettings(alone_count, kinds=(kind,))) for kind in Kind}
    return run(FaultSettings(count, max_seconds=60 * minutes)), alone


def as_markdown(found: FaultReport, alone: dict[Kind, FaultReport], command: str) -> str:
    """The page for docs/results."""
    rows = []
    for kind in Kind:
        counts = [f"{found.counts[kind, tier]:,}" if tier in TIERS[kind] else "" for tier in COLUMNS]
        ends = ", ".join(f"{end} {count:,}" for end, count in alone[kind].ends.most_common() if count)
        own = alone[kind]
        rows.append(
            f"| {kind} | {' | '.join(counts)} | {own.counts.total():,} | {ends or 'blocks are missing'} "
            f"| {own.wrong_count + own.hung_count} |"
        )
    reports = (found, *alone.values())
    wrong, hung = (sum(getattr(one, name) for one in reports) for name in ("wrong_count", "hung_count"))
    crashed, lost = (sum(len(getattr(one, name)) for one in reports) for name in ("crashes", "lost_tiers"))
    served = ", ".join(f"{found.served[tier]:,} from {name}" for tier, name in _NAMES.items())
    ends = "\n".join(f"| {end} | {count:,} |" for end, count in found.ends.most_common())
    about = f"{time.strftime('%Y-%m-%d', time.gmtime())}, {machine.machine()}, {len(os.sched_getaffinity(0))} cores"
    table = "\n".join(rows)
    return f"""# Faults in all tiers of KV blocks at once

`{command}`, {about}, {found.seconds / 60:.0f} minutes.
{found.counts.total():,} faults happened while {found.request_count:,} prompts were asked: **{wrong} blocks were
others than demanded, {hung} requests hung**, {crashed} engines ended, {lost} tiers did not serve afterwards.
Blocks that requests began with: {served}.

Faults by the place that they happened to; and, of a run with that kind alone, how the product ended them. A fault that
no request meets ends as nothing: its block gave way, or an earlier one of its prompt was missing.

| fault | memory | disk | worker | store | alone | ends as | wrong or hung |
|---|---|---|---|---|---|---|---|
{table}

How the product ended the faults of the run with all kinds:

| end | times |
|---|---|
{ends}
"""


_NAMES = {"memory": "memory", "disk": "the disk", "worker": "other workers", "store": "the store"}


def main() -> None:
    parser = argparse.ArgumentParser("python -m tests.benchmarks.kv_faults", description=__doc__)
    parser.add_argument("--faults", type=int, default=1_000_000)
    parser.add_argument("--alone", type=int, default=1000)
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--write", type=Path)
    options = parser.parse_args()
    found, alone = measure(options.faults, options.alone, options.minutes)
    flags = f"--faults {options.faults} --alone {options.alone} --minutes {options.minutes:g}"
    page = as_markdown(found, alone, f"python -m tests.benchmarks.kv_faults {flags}")
    print(page)
    if options.write:
        options.write.write_text(page)
    if not all(report.is_sound for report in (found, *alone.values())):
        raise SystemExit(1)


if __name__ == "__main__":
    main()
