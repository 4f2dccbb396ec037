"""`headrace top`: what a running platform does, now."""

import contextlib
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import httpx2
from cyclopts import Parameter
from rich.console import Group, RenderableType
from rich.live import Live
from rich.text import Text

from headrace.cli.commands.top.load_page import KEYS_LINE, SORT_KEYS, legend, load_page
from headrace.cli.commands.top.open_count import OpenCount
from headrace.cli.output import console, print_json
from headrace.cli.reach.platform_http import get
from headrace.cli.target import AuthorityFlag, KeyFlag, key_headers, trust
from headrace.cli.terminal.key_reader import KeyReader
from headrace.cli.terminal.platform_load import TIMEOUT, ModelLoad, Reading, measure_load, read_metrics
from headrace.domain.deadline import Deadline
from headrace.errors import InvalidRequest, Unavailable
from headrace.supervisor.state import DEFAULT_FOLDER, read_platform

FIRST_SECONDS = 0.3
"""Seconds between the first two looks, so that a page comes soon."""
LEAVING, EXPLAINING = ("q", "Q"), ("?", "h")


def top(
    *,
    interval: float = 1.0,
    once: Annotated[bool, Parameter(negative="")] = False,
    key: KeyFlag = "",
    state_dir: Path = DEFAULT_FOLDER,
    ca: AuthorityFlag = None,
    json: Annotated[bool, Parameter(negative="")] = False,
) -> None:
    """Watches a running platform until q or Ctrl-C: services, models, load. The key ? explains the columns.

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
    trust(ca, platform)
    look = _Look(state_dir, key)
    look.take()
    if not (json or once) and console.is_terminal:
        with contextlib.suppress(KeyboardInterrupt):
            _watch(look, interval)
        return
    time.sleep(interval)
    look.take()
    if json:
        models = [asdict(load) | _residence(load.model, look.residences) for load in look.loads]
        opened = [asdict(each) for each in look.requests]
        print_json({"services": look.platform["services"], "models": models, "open_requests": opened})
        return
    console.print(look.page(), "", legend(), sep="\n")


class _Look:
    """Latest look at a platform."""

    def __init__(self, state_dir: Path, key: str) -> None:
        self._state_dir = state_dir
        self._key = key
        self._before: Reading | None = None
        self.platform: dict[str, Any] = {}
        self.loads: list[ModelLoad] = []
        self.residences: dict[str, str] = {}
        self.requests: list[OpenCount] = []

    def take(self) -> None:
        """Looks. Raises NotFound when the platform has ended, and Unavailable when no gateway answers."""
        self.platform = read_platform(self._state_dir)
        now = read_metrics(self.platform["http"], self._key)
        self.loads = measure_load(self._before or now, now, self.platform["models"])
        self._before = now
        fleet = _fleet(self.platform["http"], self._key)
        self.residences, self.requests = _residences(fleet), OpenCount.listed(fleet)

    def page(self, key: str = "", lines: Sequence[RenderableType] = ()) -> Group:
        """Returns the page for this terminal. `key`: the one that sorts."""
        found = self.platform, self.loads, self.residences
        return load_page(*found, console.width, key=key, lines=lines, requests=self.requests)


def _watch(look: _Look, interval: float) -> None:
    """Shows a page on a screen of its own, until the user leaves or the platform ends."""
    sort_key, is_explaining, trouble = "", False, ""
    with KeyReader() as keys, Live(console=console, screen=True, auto_refresh=False) as live:
        due = Deadline.after(min(interval, FIRST_SECONDS))
        while True:
            live.update(_screen(look, sort_key, is_explaining, trouble), refresh=True)
            pressed = keys.read(due.remaining)
            if pressed in LEAVING:
                return
            is_explaining = is_explaining != (pressed in EXPLAINING)
            sort_key = pressed if pressed in SORT_KEYS else sort_key
            if due.expired:
                due = Deadline.after(interval)
                trouble = _trouble_of(look)


def _trouble_of(look: _Look) -> str:
    """Looks, and returns what keeps a gateway from answering; empty if one does."""
    try:
        look.take()
    except Unavailable as error:
        return error.message.partition(". Start one")[0]
    return ""


def _screen(look: _Look, sort_key: str, is_explaining: bool, trouble: str) -> Group:
    lines: list[RenderableType] = [Text.from_markup(KEYS_LINE, style="dim")]
    lines += [Text(trouble, "red")] if trouble else []
    lines += ["", legend()] if is_explaining else []
    return look.page(sort_key, lines)


def _fleet(url: str, key: str) -> dict[str, Any]:
    """Returns a gateway's report of the fleet; empty where it gives none to this key."""
    with contextlib.suppress(Unavailable, ValueError):
        response = get(f"{url}/headrace/fleet", key_headers(key), TIMEOUT)
        if response.status_code == httpx2.codes.OK:
            return dict(response.json())
    return {}


def _residences(fleet: Mapping[str, Any]) -> dict[str, str]:
    """Returns where each model is, if some of them are not awake."""
    found: dict[str, str] = {}
    for worker in fleet.get("workers", ()):
        place = str(worker["residence"]).replace("_", " ")
        found[worker["model"]] = "awake" if found.get(worker["model"]) == "awake" else place
    return found if set(found.values()) - {"awake"} else {}


def _residence(model: str, residences: dict[str, str]) -> dict[str, str]:
    return {"residence": residences[model]} if model in residences else {}
