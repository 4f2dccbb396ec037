"""Errors of a simulation as a table."""

from typing import Any

from rich.table import Table


def calibration_table(found: dict[str, Any]) -> Table:
    """Formats each figure as it was, as it was simulated, and the error."""
    table = Table(box=None, header_style="dim", pad_edge=False)
    table.add_column("")
    for title in ("platform", "simulated", "error"):
        table.add_column(title, justify="right")
    for row in found["figures"]:
        simulated, error = row["simulated"], row["error"]
        table.add_row(
            _title(row["figure"]),
            f"{row['real']:,.1f}",
            "-" if simulated is None else f"{simulated:,.1f}",
            "-" if error is None else f"{error:+.1%}",
        )
    return table


def _title(figure: str) -> str:
    name, statistic, unit = figure.split("_")
    return f"{name.upper()} {statistic}, {unit}"
