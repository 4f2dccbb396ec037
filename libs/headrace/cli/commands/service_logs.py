"""`headrace logs`: what the services wrote."""

import json as json_module
import sys
import time
from collections import deque
from pathlib import Path
from typing import Annotated, TextIO

from cyclopts import Parameter
from rich.markup import escape

from headrace.cli.output import console
from headrace.errors import InvalidRequest, NotFound
from headrace.supervisor.files.log_rotation import old_log
from headrace.supervisor.state import DEFAULT_FOLDER

FOLLOW_INTERVAL = 0.2
_STYLES = {"warning": "yellow", "error": "red", "critical": "red"}
_SHOWN = ("time", "level", "service", "logger", "message", "exception")


def logs(
    service: str | None = None,
    *,
    follow: Annotated[bool, Parameter(name=["--follow", "-f"], negative="")] = False,
    lines: int = 20,
    state_dir: Path = DEFAULT_FOLDER,
    json: Annotated[bool, Parameter(negative="")] = False,
) -> None:
    """Shows what the services of a platform wrote, also after it has ended.

    Parameters
    ----------
    service
        One service, such as worker-0; default: all, in the order of time.
    follow
        Continue with new lines until Ctrl-C.
    lines
        Last lines of each service to begin with.
    state_dir
        The state folder that the platform was started with.
    json
        Print the lines as they were written: JSON objects.
    """
    if lines < 0:
        raise InvalidRequest(f"--lines is {lines}; it must be at least 0", param="lines")
    folder = state_dir.expanduser().absolute() / "logs"
    found = {path.stem: path for path in sorted(folder.glob("*.log"))}
    if service is not None and service not in found:
        known = ", ".join(found) or "none; start a platform with: headrace up"
        raise NotFound(f"there is no log of {service!r} in {folder}; there are: {known}")
    if not found:
        raise NotFound(f"there are no logs in {folder}; start a platform with: headrace up")
    chosen = found if service is None else {service: found[service]}
    ends = {name: _end_of(path) for name, path in chosen.items()}
    tails = [(name, line) for name, path in chosen.items() for line in _tail(path, lines, ends[name])]
    for name, line in sorted(tails, key=lambda entry: _time_of(entry[1])):
        _print(name, line, json)
    if follow:
        _follow(chosen, ends, json)


def _end_of(path: Path) -> int:
    """Returns the byte after the last whole line."""
    return path.read_bytes().rfind(b"\n") + 1


def _tail(path: Path, count: int, end: int) -> list[str]:
    """Returns the last lines before `end`, and of the old log before it where that is needed."""
    old = old_log(path)
    written = (old.read_bytes() if old.exists() else b"") + path.read_bytes()[:end]
    return list(deque(written.decode(errors="replace").splitlines(), maxlen=count))


def _follow(chosen: dict[str, Path], ends: dict[str, int], as_json: bool) -> None:
    """Prints new lines until it is interrupted. A log that was emptied is read from its beginning."""
    while True:
        for name, path in chosen.items():
            is_shorter = path.stat().st_size < ends[name]
            with path.open(errors="replace") as log:
                ends[name] = _read_on(log, name, 0 if is_shorter else ends[name], as_json)
        time.sleep(FOLLOW_INTERVAL)


def _read_on(log: TextIO, name: str, start: int, as_json: bool) -> int:
    """Prints whole lines from `start` on, and returns where the next one begins."""
    log.seek(start)
    while (line := log.readline()).endswith("\n"):
        _print(name, line.rstrip("\n"), as_json)
        start = log.tell()
    return start


def _time_of(line: str) -> str:
    """Returns the time of a line; lines that are not from a service come first."""
    return line[10:39] if line.startswith('{"time": "') else ""


def _print(name: str, line: str, as_json: bool) -> None:
    if as_json:
        sys.stdout.write(line + "\n")
        sys.stdout.flush()
        return
    try:
        entry = dict(json_module.loads(line))
        rest = " ".join(f"{key}={value}" for key, value in entry.items() if key not in _SHOWN)
        style = _STYLES.get(str(entry["level"]), "")
        message = f"[{style}]{escape(str(entry['message']))}[/]" if style else escape(str(entry["message"]))
        text = f"[dim]{str(entry['time'])[11:23]}[/] [cyan]{name}[/] {message} [dim]{escape(rest)}[/]"
        console.print(text.rstrip(), soft_wrap=True)
        if "exception" in entry:
            console.print(escape(str(entry["exception"])), soft_wrap=True)
    except (ValueError, KeyError, TypeError):
        console.print(f"[cyan]{name}[/] {escape(line)}", soft_wrap=True)
