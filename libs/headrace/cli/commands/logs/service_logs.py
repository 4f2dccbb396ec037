"""`headrace logs`: what the services wrote."""

import sys
import time
from collections import deque
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Literal, TextIO

from cyclopts import Parameter

from headrace.cli.commands.logs.log_filter import LogFilter, parse_since, request_in_logs
from headrace.cli.commands.logs.log_line import NATS, LogLine, read_line
from headrace.cli.output import console, error_console
from headrace.errors import InvalidRequest, NotFound
from headrace.supervisor.files.log_rotation import old_log
from headrace.supervisor.state import DEFAULT_FOLDER, is_held

FOLLOW_INTERVAL = 0.2
USUAL_LINES = 20
_EARLIEST = datetime.fromtimestamp(0, UTC)


def logs(
    service: str | None = None,
    *,
    follow: Annotated[bool, Parameter(name=["--follow", "-f"], negative="")] = False,
    since: str = "",
    level: Literal["debug", "info", "warning", "error"] = "info",
    request: str = "",
    lines: int | None = None,
    state_dir: Path = DEFAULT_FOLDER,
    json: Annotated[bool, Parameter(negative="")] = False,
) -> None:
    """Shows what the services of a platform wrote, also after it has ended.

    Parameters
    ----------
    service
        One service, such as worker-0; supervisor is what starts and watches them. Default: all in the order of time,
        but NATS at --level debug alone.
    follow
        Continue with new lines until Ctrl-C.
    since
        Show lines from a time on: a duration such as 90s, 15m, 2h or 1d, or a time such as 14:30 or 2026-11-28T14:30.
    level
        Lowest level to show. What services log is up to headrace up --log-level.
    request
        Show lines about one request: `id` in the answer, or its header x-request-id.
    lines
        Last lines of each service to begin with. Default: 20, and all with --since or --request.
    state_dir
        The state folder that the platform was started with.
    json
        Print the lines as they were written: JSON objects.
    """
    if lines is not None and lines < 0:
        raise InvalidRequest(f"--lines is {lines}; it must be at least 0", param="lines")
    chosen = _chosen(service, state_dir, with_nats=level == "debug")
    wanted = LogFilter(parse_since(since) if since else None, level, request_in_logs(request))
    count = lines if lines is not None else None if wanted.is_narrow else USUAL_LINES
    ends = {name: _end_of(path) for name, path in chosen.items()}
    tails = [line for name, path in chosen.items() for line in _tail(name, path, ends[name], wanted, count)]
    tails.sort(key=lambda line: line.at or _EARLIEST)
    if not is_held(state_dir):
        _say_it_has_ended(state_dir, tails)
    for line in tails:
        _print(line, json)
    if follow:
        _follow(chosen, ends, wanted, json)


def _chosen(service: str | None, state_dir: Path, *, with_nats: bool) -> dict[str, Path]:
    """Returns the logs to show, by service. Raises NotFound."""
    folder = state_dir.expanduser().absolute() / "logs"
    found = {path.stem: path for path in sorted(folder.glob("*.log"))}
    if service is not None and service not in found:
        known = ", ".join(found) or "none; start a platform with: headrace up"
        raise NotFound(f"there is no log of {service!r} in {folder}; there are: {known}")
    if not found:
        raise NotFound(f"there are no logs in {folder}; start a platform with: headrace up")
    if service is not None:
        return {service: found[service]}
    return {name: path for name, path in found.items() if with_nats or name != NATS}


def _say_it_has_ended(state_dir: Path, lines: list[LogLine]) -> None:
    last = max((line.at for line in lines if line.at is not None), default=None)
    when = f"; the last was written at {last.astimezone():%Y-%m-%d %H:%M:%S}" if last else ""
    folder = state_dir.expanduser().absolute()
    error_console.print(
        f"[dim]No platform runs on {folder}. These lines are from one that has ended{when}.[/]", soft_wrap=True
    )


def _end_of(path: Path) -> int:
    """Returns the byte after the last whole line."""
    return path.read_bytes().rfind(b"\n") + 1


def _tail(name: str, path: Path, end: int, wanted: LogFilter, count: int | None) -> list[LogLine]:
    """Returns the last wanted lines before `end`, and of the old log before it where that is needed."""
    old = old_log(path)
    written = (old.read_bytes() if old.exists() else b"") + path.read_bytes()[:end]
    texts = written.decode(errors="replace").splitlines()
    return list(deque((line for line in _read(name, texts) if wanted.lets_through(line)), maxlen=count))


def _read(name: str, texts: list[str]) -> Iterator[LogLine]:
    before: LogLine | None = None
    for text in texts:
        before = read_line(name, text, before)
        yield before


def _follow(chosen: dict[str, Path], ends: dict[str, int], wanted: LogFilter, as_json: bool) -> None:
    """Prints new lines until it is interrupted. A log that was emptied is read from its beginning."""
    while True:
        for name, path in chosen.items():
            is_shorter = path.stat().st_size < ends[name]
            with path.open(errors="replace") as log:
                ends[name] = _read_further(log, name, 0 if is_shorter else ends[name], wanted, as_json)
        time.sleep(FOLLOW_INTERVAL)


def _read_further(log: TextIO, name: str, start: int, wanted: LogFilter, as_json: bool) -> int:
    """Prints wanted lines from `start` on, once they are whole, and returns where the next one begins."""
    log.seek(start)
    before: LogLine | None = LogLine(name, "", datetime.now(UTC), "info", "")
    while (text := log.readline()).endswith("\n"):
        before = read_line(name, text.rstrip("\n"), before)
        if wanted.lets_through(before):
            _print(before, as_json)
        start = log.tell()
    return start


def _print(line: LogLine, as_json: bool) -> None:
    if as_json:
        sys.stdout.write(line.text + "\n")
        sys.stdout.flush()
    else:
        console.print(line.shown(), soft_wrap=True)
