"""Numbers of workers that were tried, as a table."""

from collections.abc import Sequence
from typing import Any

from rich.table import Table


def search_table(tried: Sequence[dict[str, Any]]) -> Table:
    """Formats a row for each number of workers: requests in time, first tokens, use and cost."""
    table = Table(box=None, header_style="dim", pad_edge=False)
    for title in ("workers", "in time", "95 %", "TTFT p95, ms", "use", "per million tokens"):
        table.add_column(title, justify="right")
    for one in tried:
        ends, first, cost = one["goodput_interval"], one["ttft_ms"]["p95"], one["cost_per_million_tokens"]
        table.add_row(
            f"{one['workers']:,}",
            f"{one['goodput_share']:.1%}",
            "-" if ends is None else f"{ends[0]:.1%} to {ends[1]:.1%}",
            "-" if first is None else f"{first:,.0f}",
            f"{one['utilization']:.0%}",
            f"{cost:,.3f}" if cost else "-",
        )
    return table
