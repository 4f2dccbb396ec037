"""Open requests of a platform in `headrace top`: by tenant, model and class."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rich.table import Table
from rich.text import Text

from headrace.cli.terminal.shortened import shortened

MAX_ROWS = 8
"""Rows that are shown, so that the page keeps its place on a screen."""
_MIN_NAME, _OTHERS = 8, 38
"""Columns of the shortest name, and of all beside the model."""


@dataclass(frozen=True, slots=True)
class OpenCount:
    """Requests of one tenant and class for one model that have not ended."""

    tenant: str
    model: str
    urgency: str
    count: int

    @classmethod
    def listed(cls, fleet: Mapping[str, Any]) -> "list[OpenCount]":
        """Reads them from a report of the fleet, the most first. A key without the scope admin sees its tenant's."""
        rows = [
            cls(str(row["tenant"]), str(row["model"]), str(row["class"]), int(row["requests"]))
            for row in fleet.get("open", ())
        ]
        return sorted(rows, key=lambda row: (-row.count, row.tenant, row.model, row.urgency))


def open_table(rows: Sequence[OpenCount], width: int) -> Table:
    """Returns a table for a terminal of so many columns. What does not fit is counted in the last row."""
    table = Table(box=None, header_style="dim", pad_edge=False)
    for title in ("tenant", "model", "class"):
        table.add_column(title, no_wrap=True)
    table.add_column("open", justify="right", no_wrap=True)
    shown = rows if len(rows) <= MAX_ROWS else rows[: MAX_ROWS - 1]
    for row in shown:
        model = shortened(row.model, max(_MIN_NAME, width - _OTHERS))
        table.add_row(Text(shortened(row.tenant, 14)), Text(model), Text(row.urgency), str(row.count))
    if others := rows[len(shown) :]:
        table.add_row(Text(f"{len(others)} more", "dim"), "", "", str(sum(row.count for row in others)))
    return table
