"""Page of `headrace top`: models and services of a platform, now."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from headrace.cli.commands.top.open_count import OpenCount, open_table
from headrace.cli.duration import duration_text
from headrace.cli.terminal.platform_load import ModelLoad
from headrace.cli.terminal.shortened import shortened
from headrace.cli.terminal.state_styles import STATE_STYLES

WIDE = 110
"""Columns of a terminal with room for long titles."""
MIN_NAME_WIDTH = 8
_RESIDENCE_STYLES = {"awake": "green", "asleep": "yellow", "on disk": "dim"}
_GAP = 2


@dataclass(frozen=True, slots=True)
class LoadColumn:
    """A number of each model."""

    key: str
    """Key that sorts by it; empty for none."""
    title: str
    wide_title: str
    width: int
    shown: Callable[[ModelLoad], str]
    order: Callable[[ModelLoad], float]
    meaning: str


def brief_ms(value: float | None) -> str:
    """Returns a time in five characters."""
    if value is None:
        return "-"
    if value < 999.5:
        return f"{value:.0f}ms"
    return f"{value / 1000:.1f}s" if value < 9950 else f"{value / 1000:.0f}s"


def _share(value: float | None) -> str:
    return "-" if value is None else f"{value:.1%}" if value < 0.0995 else f"{value:.0%}"


COLUMNS: Sequence[LoadColumn] = (
    LoadColumn("", "wk", "workers", 2, lambda one: str(one.worker_count), lambda one: one.worker_count, "workers"),
    LoadColumn("r", "run", "running", 4, lambda one: str(one.running), lambda one: one.running, "running requests"),
    LoadColumn("w", "wait", "waiting", 4, lambda one: str(one.waiting), lambda one: one.waiting,
               "requests that wait for a place in a worker"),
    LoadColumn("t", "tok/s", "tokens/s", 6, lambda one: f"{one.tokens_per_second:.0f}",
               lambda one: one.tokens_per_second, "output tokens per second, of all requests together"),
    LoadColumn("f", "TTFT", "TTFT p50", 5, lambda one: brief_ms(one.ttft_p50_ms), lambda one: one.ttft_p50_ms or 0.0,
               "time to first token: half of the requests have it within this time"),
    LoadColumn("", "p95", "TTFT p95", 5, lambda one: brief_ms(one.ttft_p95_ms), lambda one: one.ttft_p95_ms or 0.0,
               "… and 95 of 100 within this"),
    LoadColumn("k", "KV", "KV", 4, lambda one: f"{one.kv_usage:.0%}", lambda one: one.kv_usage,
               "memory for keys and values in use, on the fullest worker; at 100 % requests wait"),
    LoadColumn("", "MBU", "MBU", 5, lambda one: _share(one.mbu), lambda one: one.mbu or 0.0,
               "model bandwidth utilization: share of the memory's bandwidth that is used"),
    LoadColumn("", "MFU", "MFU", 5, lambda one: _share(one.mfu), lambda one: one.mfu or 0.0,
               "model FLOPs utilization: share of the arithmetic rate that is used"),
)  # fmt: skip
SORT_KEYS: Mapping[str, str] = {"n": "name"} | {each.key: each.title for each in COLUMNS if each.key}
"""Keys that sort, and what by."""
KEYS_LINE = "[b]q[/] quit   [b]?[/] help   sort by: " + "  ".join(
    f"[b]{key}[/] {name}" for key, name in SORT_KEYS.items()
)
"""Line about the keys, with markup."""


def sorted_loads(loads: Sequence[ModelLoad], key: str) -> list[ModelLoad]:
    """Returns the models by name, or the largest number first."""
    column = next((each for each in COLUMNS if each.key and each.key == key), None)
    if column is None:
        return sorted(loads, key=lambda one: one.model) if key == "n" else list(loads)
    return sorted(loads, key=column.order, reverse=True)


def load_page(
    platform: Mapping[str, Any],
    loads: Sequence[ModelLoad],
    residences: Mapping[str, str],
    width: int,
    *,
    key: str = "",
    lines: Sequence[RenderableType] = (),
    requests: Sequence[OpenCount] = (),
) -> Group:
    """Returns the page for a terminal of so many columns. `residences`: where models are that take turns. `key`: the
    one that sorts. `lines`: what stands below the title. `requests`: open ones."""
    up = duration_text(time.time() - platform["started"])
    services = platform["services"]
    ready_count = sum(service["state"] == "ready" for service in services)
    title = Text(f"{platform['http']}   up {up}   ", style="dim")
    title.append(f"{ready_count} of {len(services)} services ready", "" if ready_count == len(services) else "red")
    models = _models(sorted_loads(loads, key), residences, width, key)
    opened: list[RenderableType] = ["", open_table(requests, width)] if requests else []
    return Group(title, *lines, "", models, *opened, "", _services(services))


def legend() -> Table:
    """Returns what each column means."""
    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column(style="bold", no_wrap=True)
    table.add_column(style="dim")
    for column in COLUMNS:
        table.add_row(column.title, column.meaning)
    table.add_row("state", "with several models in one worker: awake, asleep in host memory, or on disk")
    return table


def _models(loads: Sequence[ModelLoad], residences: Mapping[str, str], width: int, key: str) -> Table:
    is_wide, has_state = width >= WIDE, bool(residences)
    titles = [column.wide_title if is_wide else column.title for column in COLUMNS]
    widths = [max(column.width, len(title)) for column, title in zip(COLUMNS, titles, strict=True)]
    taken = sum(each + _GAP for each in widths) + (has_state * (len("on disk") + _GAP))
    table = Table(box=None, header_style="dim", pad_edge=False, padding=(0, _GAP, 0, 0))
    table.add_column(_marked("model", key == "n"), no_wrap=True)
    if has_state:
        table.add_column("state", no_wrap=True)
    for column, title, least in zip(COLUMNS, titles, widths, strict=True):
        is_chosen = bool(key) and column.key == key
        table.add_column(_marked(title, is_chosen), justify="right", no_wrap=True, min_width=least)
    for load in loads:
        state = residences.get(load.model, "awake")
        named = [Text(shortened(load.model, max(MIN_NAME_WIDTH, width - taken)))]
        named += [Text(state, _RESIDENCE_STYLES.get(state, ""))] if has_state else []
        cells = [Text(column.shown(load)) for column in COLUMNS]
        cells[2].stylize("yellow" if load.waiting else "")
        table.add_row(*named, *cells)
    return table


def _marked(title: str, is_chosen: bool) -> Text:
    return Text(title, "bold underline" if is_chosen else "")


def _services(services: Sequence[Mapping[str, Any]]) -> Table:
    table = Table(box=None, header_style="dim", pad_edge=False)
    for title in ("service", "state", "pid", "restarts", "model"):
        table.add_column(title, no_wrap=True, overflow="ellipsis", justify="right" if title == "pid" else "left")
    for service in services:
        state = Text(service["state"], style=STATE_STYLES.get(service["state"], ""))
        restarts = Text(str(service["restarts"]), style="red" if service["restarts"] else "dim")
        model = Text(service.get("model", ""))
        table.add_row(service["name"], state, str(service["pid"] or ""), restarts, model)
    return table
