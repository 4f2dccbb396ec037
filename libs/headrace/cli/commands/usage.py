"""`headrace usage`: sums what requests used."""

import csv
import sys
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter
from rich.table import Table

from headrace.access.usage_report import UsageSum, parse_day, read_usage, summed
from headrace.cli.output import console, fail, print_json
from headrace.errors import NotFound
from headrace.supervisor.state import DEFAULT_FOLDER, USAGE_FOLDER

COLUMNS = ("requests", "finished", "prompt_tokens", "cached_tokens", "output_tokens", "cost", "cost_per_million_tokens")


def usage(
    *,
    by: Literal["key", "model", "tenant", "day"] = "key",
    since: str = "",
    until: str = "",
    state_dir: Path = DEFAULT_FOLDER,
    folder: Path | None = None,
    csv: Annotated[bool, Parameter(negative="")] = False,
    json: Annotated[bool, Parameter(negative="")] = False,
) -> None:
    """Sums what requests used: requests, tokens, and the price of the accelerators' time, where workers know it.

    Args:
        by: Groups to sum by.
        since: First day, in UTC, such as 2026-11-22. Default: the first recorded.
        until: Last day. Default: today.
        state_dir: The state folder of the platform.
        folder: The folder of the records, if it is not in the state folder.
        csv: Print comma-separated values.
        json: Print one JSON object.
    """
    if csv and json:
        fail("--csv and --json exclude each other: choose one")
    place = (folder or state_dir / USAGE_FOLDER).expanduser()
    if not place.is_dir():
        raise NotFound(f"there are no records of usage in {place}: a gateway writes them into its usage_folder")
    sums = summed(read_usage(place, parse_day(since, "since"), parse_day(until, "until")), by)
    if json:
        print_json({"by": by, "usage": [one.as_dict(by) for one in sums]})
    elif csv:
        _print_csv(sums, by)
    else:
        console.print(_table(sums, by))
        console.print(f"[dim]{legend(by)}[/]")


def _print_csv(sums: list[UsageSum], by: str) -> None:
    writer = csv.DictWriter(sys.stdout, [by, *COLUMNS], lineterminator="\n")
    writer.writeheader()
    for one in sums:
        content = one.as_dict(by)
        writer.writerow({name: _csv_cell(content[name]) for name in (by, *COLUMNS)})


def _csv_cell(value: str | int | float) -> str | int | float:
    """Returns a cell: nothing for a price that is not known. Prices are the only fractions."""
    return value or "" if isinstance(value, float) else value


def legend(by: str) -> str:
    """Returns what cells mean."""
    unnamed = {"key": "-: without a key. ", "tenant": "-: without a tenant. "}.get(by, "")
    return (
        f"{unnamed}cached tokens: of prompts, computed before. cost: the price of the workers' time, by their "
        "hourly_price; -: not known."
    )


def _shown(value: str | int | float) -> str:
    """Returns a cell: `-` for a price that is not known."""
    return (f"{value:.6f}" if value else "-") if isinstance(value, float) else str(value)


def _table(sums: list[UsageSum], by: str) -> Table:
    table = Table(box=None, header_style="dim", pad_edge=False)
    table.add_column(by)
    for title in COLUMNS:
        table.add_column(title.replace("_", " "), justify="right")
    for one in sums:
        content = one.as_dict(by)
        table.add_row(str(content[by]) or "-", *(_shown(content[name]) for name in COLUMNS))
    return table
