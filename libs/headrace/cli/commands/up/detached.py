"""Start in the background, as a person or a script follows it."""

import contextlib
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from rich.markup import escape
from rich.status import Status

from headrace.cli.commands.up.background_start import BackgroundStart
from headrace.cli.commands.up.line_view import PROGRESS_SECONDS
from headrace.cli.output import console, print_json
from headrace.domain.deadline import Deadline
from headrace.supervisor.platform import MAX_START_SECONDS

REPORT_SECONDS = 60.0
"""Seconds beyond the longest start within which it must have reported its end."""


def follow_start(start: BackgroundStart, *, as_json: bool) -> dict[str, Any]:
    """Shows how a start gets on, and returns the description of the platform once it is ready. Raises HeadraceError
    with the reason of a failure. An interrupt ends the start."""
    deadline = Deadline.after(MAX_START_SECONDS + REPORT_SECONDS)
    described: dict[str, Any] = {}
    try:
        with _shown(as_json) as show:
            for event in start.events(deadline):
                show(event)
                described = event
    except KeyboardInterrupt:
        if not as_json:
            console.print("[dim]Stopping what was started …[/]")
        start.give_up()
        raise
    start.leave()
    return described


@contextlib.contextmanager
def _shown(as_json: bool) -> Iterator[Callable[[dict[str, Any]], None]]:
    """Yields what shows an event: in a terminal each replaces the one before, elsewhere they follow each other."""
    if as_json:
        yield print_json
    elif console.is_terminal:
        with console.status("Starting …") as status:
            yield partial(_show_on, status)
    else:
        console.print("Starting …")
        yield _LinePrinter().show


def _show_on(status: Status, event: dict[str, Any]) -> None:
    if event["event"] == "memory":
        console.print(event["text"], soft_wrap=True, markup=False)
    elif line := _line(event):
        status.update(f"Starting … [dim]{escape(line)}[/]")


class _LinePrinter:
    """Prints events, and of those about progress one in a while."""

    def __init__(self) -> None:
        self._progressed = time.monotonic()

    def show(self, event: dict[str, Any]) -> None:
        now = time.monotonic()
        if event["event"] == "progress":
            if now - self._progressed < PROGRESS_SECONDS:
                return
            self._progressed = now
        if line := _line(event):
            console.print(line, soft_wrap=True, markup=False)


def _line(event: dict[str, Any]) -> str:
    """Returns the words for an event; empty where there are none."""
    if event["event"] == "memory":
        return str(event["text"])
    if event["event"] == "progress":
        return f"{event['name']}: {event['text']}"
    if event["event"] == "service" and event["state"] in ("ready", "restarting"):
        return f"{event['name']} {'is ready' if event['state'] == 'ready' else 'has ended, and is started again'}"
    return ""
