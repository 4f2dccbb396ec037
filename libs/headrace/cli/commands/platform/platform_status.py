"""`headrace status`: whether a platform runs, and how it is."""

import time
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any

import httpx2
from cyclopts import Parameter
from rich.table import Table
from rich.text import Text

from headrace.cli.commands.up.ready_page import print_addresses
from headrace.cli.duration import duration_text
from headrace.cli.output import console, print_json
from headrace.cli.reach.platform_http import get
from headrace.cli.target import AuthorityFlag, trust
from headrace.cli.terminal.own_command import own_command, state_flag
from headrace.cli.terminal.state_styles import STATE_STYLES
from headrace.errors import HeadraceError, NotFound
from headrace.launch.plan import READY_PATH
from headrace.supervisor.state import DEFAULT_FOLDER, is_held, last_platform, read_platform

NOT_RUNNING_CODE = 3
TIMEOUT = 5.0
WIDE = 100
"""Columns of a terminal that has room for the addresses of services; headrace ps has them in any."""


def status(
    *,
    state_dir: Path = DEFAULT_FOLDER,
    ca: AuthorityFlag = None,
    json: Annotated[bool, Parameter(negative="")] = False,
) -> None:
    """Shows whether a platform runs: its services, their pids, uptime, models, addresses and health. Exits with 0 if
    one runs, with 3 if none does.

    Parameters
    ----------
    state_dir
        The state folder that the platform was started with.
    json
        Print one JSON object.
    """
    try:
        platform = read_platform(state_dir)
    except NotFound as error:
        is_starting = is_held(state_dir)
        _show_none(state_dir, error, json, is_starting=is_starting)
        raise SystemExit(0 if is_starting else NOT_RUNNING_CODE) from None
    trust(ca, platform)
    health = health_of(platform)
    if json:
        print_json({"running": True, "health": health} | platform)
        return
    _show(platform, health, state_dir)


def health_of(platform: dict[str, Any]) -> str:
    """Returns what a platform answers about itself: ready, or why it is not."""
    if platform.get("state") != "ready":
        return str(platform.get("state", "starting"))
    try:
        response = get(f"{platform['http']}{READY_PATH}", {}, TIMEOUT)
        if response.status_code == httpx2.codes.OK:
            return "ready"
        return f"not ready: {response.json().get('status', response.status_code)}"
    except HeadraceError as error:
        return f"not known: {error.message.partition('. Start one')[0]}"
    except (ValueError, AttributeError):
        return f"not known: {platform['http']} answers something else"


def _show_none(state_dir: Path, error: NotFound, as_json: bool, *, is_starting: bool) -> None:
    last = last_platform(state_dir)
    if as_json:
        print_json({"running": is_starting, "message": error.message})
        return
    console.print(error.message, soft_wrap=True, markup=False)
    if last and not is_starting:
        flag = state_flag(state_dir)
        console.print(
            f"The last one (pid {last['pid']}) was killed. Its last lines: {own_command()} logs{flag}. What it left is "
            f"removed by {own_command()} stop{flag}, or by the next start.",
            soft_wrap=True,
            markup=False,
        )


def _show(platform: dict[str, Any], health: str, state_dir: Path) -> None:
    now = time.time()
    since = datetime.fromtimestamp(platform["started"]).astimezone()
    style = "green" if health == "ready" else "yellow"
    console.print(
        f"[bold {style}]{health}[/]   [dim]up {duration_text(now - platform['started'])}, since "
        f"{since:%Y-%m-%d %H:%M:%S}, pid {platform['pid']}[/]",
        soft_wrap=True,
    )
    print_addresses(platform)
    console.print(f"  models   {', '.join(platform['models'])}", soft_wrap=True, markup=False)
    console.print(f"  state    {state_dir.expanduser().absolute()}\n", soft_wrap=True, markup=False)
    console.print(_services(platform["services"], now))


def _services(services: list[dict[str, Any]], now: float) -> Table:
    has_addresses = console.width >= WIDE
    table = Table(box=None, header_style="dim", pad_edge=False)
    titles = ("service", "state", "pid", "up", "restarts", *(("address",) if has_addresses else ()), "model")
    for title in titles:
        table.add_column(title, no_wrap=title != "model", justify="right" if title in ("pid", "up") else "left")
    for service in services:
        state = Text(service["state"], style=STATE_STYLES.get(service["state"], ""))
        restarts = Text(str(service["restarts"]), style="red" if service["restarts"] else "dim")
        up = duration_text(now - service["started"]) if service.get("started") else ""
        address = (service["address"],) if has_addresses else ()
        model = Text(service.get("model", ""), overflow="fold")
        table.add_row(service["name"], state, str(service["pid"] or ""), up, restarts, *address, model)
    return table
