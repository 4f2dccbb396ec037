"""Judges observations by their promises, and shows them as a table."""

import math
import os
import platform
from collections.abc import Sequence
from dataclasses import dataclass

from rich import box
from rich.table import Table
from tests.faults.fault import Fault
from tests.faults.observation import Observation

COLUMNS = (
    "fault",
    "requests",
    "failed",
    "hung",
    "lost",
    "doubled",
    "equal %",
    "moved",
    "stall p99 s",
    "stall max s",
    "recovery s",
    "leaked",
    "broken promises",
)


@dataclass(frozen=True)
class Verdict:
    """A fault, what came of it, and the promises that it broke."""

    fault: Fault
    seen: Observation

    @property
    def broken(self) -> list[str]:
        """Promises that were broken, in words; empty when everything held."""
        seen, promise = self.seen, self.fault.promise
        stall, recovery = seen.stall_p99, seen.recovery
        checks = {
            f"{seen.hung} hung": seen.hung,
            f"{seen.lost} tokens lost": seen.lost,
            f"{seen.doubled} tokens doubled": seen.doubled,
            f"{seen.unequal} answers differ": seen.unequal,
            f"{seen.failed} failed ({_counts(seen.failures)})": seen.failed and not promise.failures,
            f"recovery > {promise.recovery} s": promise.recovery is not None and recovery > promise.recovery,
            f"stall > {promise.stall} s": promise.stall is not None and stall is not None and stall > promise.stall,
            f"held: {_counts(seen.leaked)}": seen.leaked,
        }
        return [*(text for text, is_broken in checks.items() if is_broken), *seen.complaints]

    def cells(self) -> list[str]:
        """Cells of the row, in the order of COLUMNS."""
        seen = self.seen
        return [
            seen.fault,
            str(seen.requests),
            str(seen.failed),
            str(seen.hung),
            str(seen.lost),
            str(seen.doubled),
            _percent(seen.equality),
            str(seen.resubmissions),
            _seconds(seen.stall_p99),
            _seconds(max(seen.stalls, default=None)),
            _seconds(seen.recovery),
            _counts(seen.leaked) or "0",
            "; ".join(self.broken) or "none",
        ]


def total_cells(verdicts: Sequence[Verdict]) -> list[str]:
    """The last row: sums, and the number of faults that broke a promise."""
    rows = [verdict.seen for verdict in verdicts]
    requests = sum(seen.requests for seen in rows)
    unequal = sum(seen.unequal for seen in rows)
    broken = sum(bool(verdict.broken) for verdict in verdicts)
    equality = 1 - unequal / requests if requests else 1.0
    cells = [str(sum(counts)) for counts in zip(*((s.failed, s.hung, s.lost, s.doubled) for s in rows), strict=True)]
    moved = str(sum(seen.resubmissions for seen in rows))
    leaked = str(sum(bool(seen.leaked) for seen in rows))
    head = [f"{len(rows)} faults", str(requests), *cells, _percent(equality), moved]
    return [*head, "", "", "", leaked, f"by {broken} faults" if broken else "none"]


def make_table(verdicts: Sequence[Verdict]) -> Table:
    """All of it for a terminal."""
    table = Table(box=box.SIMPLE_HEAD)
    for index, column in enumerate(COLUMNS):
        is_text = index in (0, len(COLUMNS) - 1)
        table.add_column(column, justify="left" if is_text else "right", overflow="fold", no_wrap=index == 0)
    for verdict in verdicts:
        table.add_row(*verdict.cells(), style="red" if verdict.broken else "")
    table.add_section()
    table.add_row(*total_cells(verdicts), style="bold")
    return table


def to_markdown(verdicts: Sequence[Verdict], command: str, date: str, seed: int) -> str:
    """All of it for docs/results."""
    rows = [list(COLUMNS), ["-" if index else ":-" for index in range(len(COLUMNS))]]
    rows += [*(verdict.cells() for verdict in verdicts), total_cells(verdicts)]
    table = "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in rows)
    return f"""# What faults do to requests

`{command}` on {date}, seed {seed}, on a machine with {os.cpu_count()} cores ({platform.machine()}, Python
{platform.python_version()}). Requests are a mix of streams, whole answers, n = 3, seeds, stop strings and logprobs;
on the bundled model also structured output and embeddings.

- **failed**: ended with a typed error or a broken connection. **hung**: no end 5 s after its own deadline of 20 s.
- **lost**, **doubled**: tokens, against the same request undisturbed. **equal**: answers that say exactly the same.
- **moved**: sequences that the gateway placed again after they had lost their worker.
- **stall**: the longest silence of each stream that ran when something was done to the platform.
- **recovery**: from then to the first of the new requests that all work without being held up for a second or more.
- **leaked**: requests, sequences, KV blocks and sessions still held 60 s after the last request.

{table}
"""


def _percent(share: float) -> str:
    """Rounded down: one answer in a million that differs must not read as 100."""
    return f"{math.floor(share * 10_000) / 100:g}"


def _seconds(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:.2f}" if math.isfinite(value) else "never"


def _counts(counts: object) -> str:
    return ", ".join(f"{name} ×{value:g}" for name, value in dict(counts).items())  # type: ignore[call-overload]
