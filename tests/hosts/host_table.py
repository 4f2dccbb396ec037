"""Table of all runs so far, as Markdown: `python -m tests.hosts.host_table`. `make test-hosts` adds rows to
build/hosts/rows.jsonl."""

import json
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Any

ROWS = Path("build/hosts/rows.jsonl")
COLUMNS = (
    *("fault", "runs", "requests", "failed", "changed", "hung", "cut", "resumed"),
    *("resumed after s", "stall s", "recovery s", "busy", "broken"),
)


def row_of(fault: str, runs: list[dict[str, Any]]) -> list[str]:
    """Sums of the counts of all runs, and the times of the run in which each was shortest and longest."""
    counts = [sum(run[name] for run in runs) for name in ("requests", "failed", "unequal", "hung", "cut")]
    resumed = [max(run["resumed"]) for run in runs if run["resumed"]]
    counts.append(sum(len(run["resumed"]) for run in runs))
    stalls = [max(run["stalls"], default=0.0) for run in runs]
    recoveries = [run["recovery"] for run in runs]
    spans = [f"{min(times):.1f} to {max(times):.1f}" if times else "" for times in (resumed, stalls, recoveries)]
    broken = [", ".join(run["broken"]) for run in runs if run["broken"]]
    said = f"{len(broken)}: {broken[0]}" if broken else "none"
    return [fault, str(len(runs)), *map(str, counts), *spans, str(sum(run["is_busy"] for run in runs)), said]


def to_table(rows: Iterable[dict[str, Any]]) -> str:
    """The table, a fault a line, in the order in which they first ran."""
    by_fault = defaultdict(list)
    for row in rows:
        by_fault[row["fault"]].append(row)
    lines = [COLUMNS, [":-", *("-" for _ in COLUMNS[1:])], *(row_of(fault, runs) for fault, runs in by_fault.items())]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)


if __name__ == "__main__":
    print(to_table(json.loads(line) for line in ROWS.read_text().splitlines()))
