"""Latency budgets of the last requests, as `headrace trace --slo` shows them: who missed theirs, and in which stage."""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from rich.table import Table

from headrace.cli.output import console

CLASSES = ("realtime", "interactive", "default", "batch")
AFTER_FIRST_TOKEN = frozenset({"decode", "detokenize", "guard", "serialize", "flush"})
"""Stages that delay further tokens. All others delay the first one."""
MAX_SHOWN = 10
Record = dict[str, Any]


def judged(records: Iterable[Record]) -> list[Record]:
    """Returns the requests that count. A gateway of the release before does not say."""
    return [record for record in records if record.get("slo")]


def late_stage(record: Record) -> str:
    """Returns the longest stage before the first token if that was late, after it if the others were, or of all of a
    request that failed. Empty: none ran."""
    slo, stages = record["slo"], record["stages_ms"]
    if slo["ttft_met"] is not None:
        is_later = slo["ttft_met"]
        stages = {name: spent for name, spent in stages.items() if (name in AFTER_FIRST_TOKEN) == is_later}
    return max(stages, key=stages.__getitem__, default="")


def summed(records: Sequence[Record]) -> list[dict[str, Any]]:
    """Returns a row for each class with requests that count."""
    rows = []
    for name in CLASSES:
        found = [record for record in records if record["class"] == name]
        if not found:
            continue
        missed = [record for record in found if not record["slo"]["met"]]
        stages = Counter(late_stage(record) for record in missed)
        rows.append(
            {
                "class": name,
                "requests": len(found),
                "met": len(found) - len(missed),
                "first_token_late": sum(record["slo"]["ttft_met"] is False for record in missed),
                "tokens_late": sum(record["slo"]["tpot_met"] is False for record in missed),
                "failed": sum(record["outcome"] != "finished" for record in missed),
                "mostly": stages.most_common(1)[0][0] if stages else None,
            }
        )
    return rows


def show(records: Sequence[Record]) -> None:
    """Prints a row for each class, and the newest requests that missed their budget."""
    if not records:
        console.print("None of the last requests counts: there were none to generate, or their clients broke them off.")
        return
    console.print(_classes(summed(records)))
    missed = [record for record in records if not record["slo"]["met"]]
    if missed:
        console.print(f"\n{min(MAX_SHOWN, len(missed))} of {len(missed)} that missed, newest first: measured/target")
        console.print(_requests(missed[:MAX_SHOWN]))
        console.print(f"[dim]One by its stages: headrace trace {missed[0]['id']}[/]", soft_wrap=True)


def _classes(rows: Iterable[dict[str, Any]]) -> Table:
    table = _table("class", "requests", "met", "first token late", "tokens late", "failed", "mostly in")
    for row in rows:
        share = f"{row['met'] / row['requests']:.1%}"
        counts = (str(row[name]) for name in ("first_token_late", "tokens_late", "failed"))
        table.add_row(row["class"], str(row["requests"]), share, *counts, row["mostly"] or "")
    return table


def _requests(records: Iterable[Record]) -> Table:
    table = _table("request", "class", "TTFT, ms", "TPOT, ms", "mostly in")
    for record in records:
        slo, speed = record["slo"], record["tokens_per_second"]
        first = _beside(record["ttft_ms"], slo["ttft_target_ms"])
        each = _beside(1000 / speed if speed else None, slo["tpot_target_ms"])
        table.add_row(record["id"], record["class"], first, each, late_stage(record))
    return table


def _beside(found: float | None, target: float) -> str:
    return "" if found is None else f"{found:.0f}/{target:.0f}"


def _table(*titles: str) -> Table:
    table = Table(box=None, pad_edge=False, header_style="dim")
    for title in titles:
        is_text = title in ("class", "request", "mostly in")
        table.add_column(title, justify="left" if is_text else "right", no_wrap=True)
    return table
