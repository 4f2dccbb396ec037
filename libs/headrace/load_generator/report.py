"""Percentiles and rates of a load test, as data and as a table."""

from typing import Any

from rich.table import Table

from headrace.load_generator.closed_loop import LoadResult
from headrace.load_generator.percentile import percentile

PERCENTILES = (50, 95, 99)
LATENCIES = ("ttft_ms", "itl_ms", "tpot_ms", "e2e_ms")
"""Names of the latencies in a summary."""


def summarize(result: LoadResult, slo_ttft: float | None = None, slo_tpot: float | None = None) -> dict[str, Any]:
    """Summarizes a load, with times in milliseconds. Goodput counts the requests per second that met the given SLOs,
    which are in seconds."""
    good = [record for record in result.records if not record.error and record.token_times]
    errors = [record.error or "no token came" for record in result.records if record.error or not record.token_times]
    series = {
        "ttft_ms": [record.ttft for record in good],
        "itl_ms": [itl for record in good for itl in record.itls],
        "tpot_ms": [record.tpot for record in good if record.tpot is not None],
        "e2e_ms": [record.e2e for record in good],
    }
    met = [
        record
        for record in good
        if (slo_ttft is None or record.ttft <= slo_ttft) and (slo_tpot is None or (record.tpot or 0.0) <= slo_tpot)
    ]
    # As saved runs count, so that their comparison shows the same rates: from the first request to the end of the last.
    begins, ends = ([getattr(record, name) for record in result.records] for name in ("start", "end"))
    seconds = (max(ends) - min(begins) if result.records else 0.0) or result.seconds
    return {
        "model": result.workload.model,
        "requests": len(result.records),
        "failed": len(errors),
        "errors": sorted(set(errors))[:5],
        **result.workload.described(),
        "seconds": round(seconds, 3),
        "requests_per_second": round(len(good) / seconds, 3),
        "output_tokens_per_second": round(sum(record.output_token_count for record in good) / seconds, 1),
        "goodput_requests_per_second": round(len(met) / seconds, 3),
    } | {name: {f"p{p}": _milliseconds(percentile(values, p)) for p in PERCENTILES} for name, values in series.items()}


def report_table(summary: dict[str, Any]) -> Table:
    """Formats the latencies of a summary as a table."""
    table = Table(box=None, header_style="dim", pad_edge=False)
    table.add_column("ms")
    for p in PERCENTILES:
        table.add_column(f"p{p}", justify="right")
    for name in LATENCIES:
        values = summary[name].values()
        table.add_row(name.removesuffix("_ms").upper(), *("-" if value is None else f"{value:.2f}" for value in values))
    return table


def _milliseconds(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds * 1000, 3)
