"""`headrace bench --claims`: claims of fast serving, each measured here, or predicted and marked so."""

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from rich.table import Table

from headrace.cli.engine_parts import require_engine_parts
from headrace.cli.output import console, error_console, print_json
from headrace.supervisor.model_source import resolve

if TYPE_CHECKING:
    from headrace.claims.claim import Claim


def print_claims(model: str | None, *, as_json: bool) -> None:
    """Measures and predicts every claim, and prints a table, or one JSON object. It needs no platform. Raises
    ConfigError for a model that is not here."""
    source = resolve([model] if model else [])[0]
    require_engine_parts()
    claims = []
    with error_console.status("measuring"):
        claims += _all_claims(source.folder, source.draft)
    if as_json:
        print_json({"model": source.name, "claims": [asdict(claim) for claim in claims]})
        return
    console.print(_table(claims))
    console.print(f"\n[dim]Measured with {source.name}. Speeds are medians of ratios of runs that took turns.[/]")


def _all_claims(folder: Path, draft: Path | None) -> "list[Claim]":
    from headrace.claims.measured_claims import measure_claims
    from headrace.claims.predicted_claims import predict_claims
    from headrace.planning.device_profile import PROFILES

    return [*measure_claims(folder, draft), *predict_claims(PROFILES)]


def _table(claims: "list[Claim]") -> Table:
    table = Table(box=None, pad_edge=False)
    for title in ("claim", "promised", "found", "basis", "condition"):
        table.add_column(title, overflow="fold")
    colors = {True: "green", False: "yellow", None: "dim"}
    for claim in claims:
        found = f"[{colors[claim.holds]}]{claim.found or '-'}[/]"
        table.add_row(claim.subject, claim.promised, found, claim.basis, claim.condition)
    return table
