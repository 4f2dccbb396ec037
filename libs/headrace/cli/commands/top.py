"""`headrace top`: what a running platform does, now."""

import contextlib
import time
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter
from rich.console import Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from headrace.cli.output import console, print_json
from headrace.cli.target import KeyFlag
from headrace.cli.terminal.platform_load import ModelLoad, Reading, measure_load, read_metrics
from headrace.errors import InvalidRequest
from headrace.supervisor.state import DEFAULT_FOLDER, read_platform

_STYLES = {"ready": "green", "starting": "yellow", "restarting": "red", "stopped": "dim"}


def top(
    *,
    interval: float = 1.0,
    once: Annotated[bool, Parameter(negative="")] = False,
    key: KeyFlag = "",
    state_dir: Path = DEFAULT_FOLDER,
    json: Annotated[bool, Parameter(negative="")] = False,
) -> None:
    """Watches a running platform until Ctrl-C: services, models, load.

    Parameters
    ----------
    interval
        Seconds between two looks, over which rates are computed.
    once
        Look once and exit, as it does where the output is no terminal.
    key
        API key, where the platform asks for one. Better given as HEADRACE_API_KEY.
    state_dir
        The state folder that the platform was started with.
    json
        Look once and print one JSON object.
    """
    if interval <= 0:
        raise InvalidRequest(f"--interval is {interval:g}; it must be above 0", param="interval")
    platform = read_platform(state_dir)
    before = read_metrics(platform["http"], key)
    time.sleep(interval)
    if json or once or not console.is_terminal:
        platform, _, loads = _look(state_dir, before, key)
        content = {"services": platform["services"], "models": [asdict(load) for load in loads]}
        print_json(content) if json else console.print(_view(platform, loads))
        return
    with contextlib.suppress(KeyboardInterrupt), Live(console=console, auto_refresh=False) as live:
        while True:
            platform, before, loads = _look(state_dir, before, key)
            live.update(_view(platform, loads), refresh=True)
            time.sleep(interval)


def _look(state_dir: Path, before: Reading, key: str) -> tuple[dict[str, Any], Reading, list[ModelLoad]]:
    platform = read_platform(state_dir)
    now = read_metrics(platform["http"], key)
    return platform, now, measure_load(before, now, platform["models"])


def _view(platform: dict[str, Any], loads: list[ModelLoad]) -> Group:
    minutes = int(time.time() - platform["started"]) // 60
    title = Text(f"{platform['http']}  up {minutes // 60} h {minutes % 60} min", style="dim")
    return Group(title, "", _models(loads), "", _services(platform["services"]))


def _models(loads: list[ModelLoad]) -> Table:
    table = Table(box=None, header_style="dim", pad_edge=False)
    table.add_column("model", overflow="fold")
    for column in ("workers", "running", "waiting", "tokens/s", "TTFT p50", "p95", "KV", "MBU", "MFU"):
        table.add_column(column, justify="right")
    for load in loads:
        table.add_row(
            load.model,
            str(load.worker_count),
            str(load.running),
            Text(str(load.waiting), style="yellow" if load.waiting else ""),
            f"{load.tokens_per_second:.0f}",
            _milliseconds(load.ttft_p50_ms),
            _milliseconds(load.ttft_p95_ms),
            f"{load.kv_usage:.0%}",
            _share(load.mbu),
            _share(load.mfu),
        )
    return table


def _services(services: list[dict[str, Any]]) -> Table:
    table = Table(box=None, header_style="dim", pad_edge=False)
    for column in ("service", "state", "pid", "restarts", "model"):
        table.add_column(column)
    for service in services:
        state = Text(service["state"], style=_STYLES.get(service["state"], ""))
        restarts = Text(str(service["restarts"]), style="red" if service["restarts"] else "dim")
        table.add_row(service["name"], state, str(service["pid"] or ""), restarts, service.get("model", ""))
    return table


def _share(value: float | None) -> str:
    return "-" if value is None else f"{value:.1%}"


def _milliseconds(value: float | None) -> str:
    return "-" if value is None else f"{value:.0f} ms"
