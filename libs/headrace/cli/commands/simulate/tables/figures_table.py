"""Figures of simulations as a table: a row for each figure, a column for each policy."""

from collections.abc import Callable, Sequence
from typing import Any

from rich.table import Table

Figures = dict[str, Any]


def _refused(one: Figures) -> str:
    reasons = ", ".join(f"{reason} {count:,}" for reason, count in one["refusals"].items())
    return f"{one['refused']:,}" + (f" ({reasons})" if reasons else "")


def _milliseconds(values: dict[str, float | None], *names: str) -> str:
    found = [values[name] for name in names]
    return ", ".join("-" if value is None else f"{value:,.1f}" for value in found)


def _shares(values: dict[str, float | None], *names: str) -> str:
    found = [values[name] for name in names]
    return ", ".join("-" if value is None else f"{value:.1%}" for value in found)


def _interval(ends: list[float] | None) -> str:
    return "-" if ends is None else f"{ends[0]:.1%} to {ends[1]:.1%}"


def _costs(one: Figures) -> str:
    if not one["cost"]:
        return "-"
    return f"{one['cost']:,.2f}; {one['cost_per_million_tokens']:,.2f}, {one['cost_per_million_output_tokens']:,.2f}"


ROWS: tuple[tuple[str, Callable[[Figures], str]], ...] = (
    ("requests", lambda one: f"{one['requests']:,}"),
    ("finished", lambda one: f"{one['finished']:,}"),
    ("refused", _refused),
    ("too long for a worker", lambda one: f"{one['too_long']:,}"),
    ("timed out: queued, running", lambda one: f"{one['queue_timeout']:,}, {one['timeout']:,}"),
    ("TTFT p50, p95, p99, ms", lambda one: _milliseconds(one["ttft_ms"], "p50", "p95", "p99")),
    ("ITL mean, p50, p95, ms", lambda one: _milliseconds(one["itl_ms"], "mean", "p50", "p95")),
    ("E2E p50, p95, ms", lambda one: _milliseconds(one["e2e_ms"], "p50", "p95")),
    ("queued p50, p95, ms", lambda one: _milliseconds(one["queue_ms"], "p50", "p95")),
    ("error of predicted first tokens, mean, p99", lambda one: _shares(one["prediction_error"], "mean", "p99")),
    ("goodput, requests/s", lambda one: f"{one['goodput_requests_per_second']:.2f}"),
    ("goodput, share", lambda one: f"{one['goodput_share']:.1%}"),
    ("goodput, share, interval of 95 %", lambda one: _interval(one["goodput_interval"])),
    ("output tokens/s", lambda one: f"{one['output_tokens_per_second']:,.1f}"),
    ("prompt tokens cached", lambda one: f"{one['cached_prompt_share']:.1%}"),
    ("utilization of workers", lambda one: f"{one['utilization']:.1%}"),
    ("workers, most at once", lambda one: f"{one['most_workers']:,}"),
    ("worker hours", lambda one: f"{one['worker_hours']:,.3f}"),
    ("cost; per million tokens, output tokens", _costs),
    ("queue depth, max", lambda one: f"{one['max_queue_depth']:,}"),
    ("virtual seconds", lambda one: f"{one['seconds']:,.1f}"),
)


def figures_table(found: Sequence[Figures]) -> Table:
    """Formats the figures of one simulation per policy."""
    table = Table(box=None, header_style="dim", pad_edge=False)
    table.add_column("")
    for one in found:
        table.add_column(one["policy"], justify="right", overflow="fold")
    for title, cell in ROWS:
        table.add_row(title, *(cell(one) for one in found))
    return table
