"""Report of a run as one HTML page without scripts and without anything from elsewhere."""

import math
from collections.abc import Sequence
from html import escape

from headrace.load_generator.report import LATENCIES, PERCENTILES
from headrace.load_generator.saved_run import SavedRun
from headrace.load_generator.stream_client import StreamRecord
from headrace.load_generator.svg_chart import line_chart, timeline

MAX_ROWS = 200
"""Requests that the timeline shows: the first ones."""
MAX_POINTS = 400
BIN_COUNT = 60
_STYLE = (
    ":root{color-scheme:light dark}body{font:15px/1.5 system-ui,sans-serif;max-width:76rem;margin:2rem auto;"
    "padding:0 1rem}svg{width:100%;height:auto;font-size:11px}svg text:not([fill]){fill:currentColor}"
    ".charts{display:grid;grid-template-columns:repeat(auto-fit,minmax(24rem,1fr));gap:1.5rem}"
    "table{border-collapse:collapse}td,th{padding:.2rem .9rem .2rem 0;text-align:right}"
    "td:first-child,th:first-child{text-align:left}h2{font-size:1.05rem;margin-bottom:.3rem}"
)


def html_report(run: SavedRun) -> str:
    """Returns the page: latencies as a table and as distributions, throughput over time, events of each request."""
    good = run.good
    tpots = [record.tpot for record in good if record.tpot is not None]
    charts = [
        _figure("Time to the first token", _distribution([record.ttft for record in good])),
        _figure("Time per output token", _distribution(tpots)),
        _figure("Time between events", _distribution([itl for record in good for itl in record.itls])),
        _figure("Time of the whole request", _distribution([record.e2e for record in good])),
        _figure("Throughput", _throughput(run)),
        _figure("Requests in flight", _in_flight(run.records, run.seconds)),
    ]
    shown = run.records[:MAX_ROWS]
    rows = [(record.start, record.token_times, record.end) for record in shown]
    cut = f" (the first {MAX_ROWS} of {len(run.records)})" if len(run.records) > MAX_ROWS else ""
    title = f"{escape(str(run.summary['model']))}, {escape(run.created)}"
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>headrace bench: {title}</title>'
        f"<style>{_STYLE}</style></head><body><h1>headrace bench</h1><p>{title}</p>{_facts(run)}{_table(run)}"
        f'<div class="charts">{"".join(charts)}</div>'
        f"{_figure(f'Events of each request{cut}', timeline(rows, run.seconds))}</body></html>\n"
    )


def _figure(title: str, chart: str) -> str:
    return f"<section><h2>{escape(title)}</h2>{chart}</section>"


def _facts(run: SavedRun) -> str:
    facts = [(name, value) for name, value in run.summary.items() if name not in LATENCIES and value not in ("", [])]
    rows = [f"<tr><td>{escape(name.replace('_', ' '))}</td><td>{escape(str(value))}</td></tr>" for name, value in facts]
    cells = "".join(rows)
    return f"<details><summary>The load</summary><table>{cells}</table></details>"


def _table(run: SavedRun) -> str:
    head = "".join(f"<th>p{percent}</th>" for percent in PERCENTILES)
    rows = []
    for name in LATENCIES:
        cells = "".join(f"<td>{'-' if value is None else f'{value:.2f}'}</td>" for value in run.summary[name].values())
        rows.append(f"<tr><td>{name.removesuffix('_ms').upper()}</td>{cells}</tr>")
    return f"<table><tr><th>ms</th>{head}</tr>{''.join(rows)}</table>"


def _distribution(seconds: Sequence[float]) -> str:
    """Draws the share of values up to each: the empirical distribution function."""
    ordered = sorted(seconds)
    step = max(1, math.ceil(len(ordered) / MAX_POINTS))
    ranks = sorted({*range(0, len(ordered), step), len(ordered) - 1} - {-1})
    points = [(ordered[rank] * 1000, 100 * (rank + 1) / len(ordered)) for rank in ranks]
    return line_chart({"": points}, "ms", "% of values up to it")


def _throughput(run: SavedRun) -> str:
    width = run.seconds / BIN_COUNT
    points = [((number + 0.5) * width, rate) for number, rate in enumerate(run.token_rates(BIN_COUNT))]
    return line_chart({"": points}, "s", "output tokens/s")


def _in_flight(records: Sequence[StreamRecord], seconds: float) -> str:
    times = [(seconds or 1.0) * number / BIN_COUNT for number in range(BIN_COUNT + 1)]
    points = [(time, float(sum(record.start <= time < record.end for record in records))) for time in times]
    return line_chart({"": points}, "s", "requests")
