"""`headrace config`: the settings of services, and where each value came from.

Each service describes itself, called with the flags and the environment of the one that runs.
"""

import json as json_format
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

from cyclopts import App, Parameter
from rich.text import Text

from headrace.cli.output import console, print_json
from headrace.errors import ConfigError, NotFound
from headrace.launch.roster import SERVICE_ROLES
from headrace.settings.description import DESCRIBE_FLAG
from headrace.supervisor.state import DEFAULT_FOLDER, read_platform, read_starts

config = App(name="config", help="Shows the settings of services, and where each came from.")
PICKER = "scheduler.picker"
"""Module of the endpoint picker, which is no service of a platform."""
TIMEOUT = 60.0
"""Seconds that a service has to describe itself."""
_Flag = Parameter(negative="")


@dataclass(frozen=True, slots=True)
class Start:
    """A service, and what it was started with, or would be."""

    name: str
    kind: str
    arguments: Sequence[str] = ()
    environment: Mapping[str, str] = field(default_factory=lambda: dict(os.environ))
    is_running: bool = False


@config.command
def show(
    service: str = "",
    *,
    origin: Annotated[bool, _Flag] = False,
    file: Annotated[Path | None, Parameter(name="--config")] = None,
    state_dir: Path = DEFAULT_FOLDER,
    json: Annotated[bool, _Flag] = False,
) -> None:
    """Shows every setting with its value, its default and its meaning. Secrets are masked.

    Where a platform runs on the state folder, it shows what its services run with; otherwise, and with --config, what
    services started from here would get from the environment, the file and the defaults.

    Args:
        service: gateway, tokenizer, scheduler, cache or worker, or the name of one that runs, such as worker-0.
            Default: all.
        origin: Say where each value came from.
        file: The configuration file to read, as given to `headrace up --config`.
        state_dir: The state folder that the platform was started with.
        json: Print one JSON object.
    """
    starts = _to_start(file) if file is not None else _running(state_dir) or _to_start(None)
    chosen = [start for start in starts if service in ("", start.name, start.kind)]
    if not chosen:
        known = ", ".join(dict.fromkeys(start.name for start in starts))
        raise NotFound(f"there is no service {service!r}; there are: {known}")
    with ThreadPoolExecutor(2) as pool:
        found = list(pool.map(_described, chosen))
    services = {start.name: described["settings"] for start, described in zip(chosen, found, strict=True)}
    if json:
        print_json({"services": services})
        return
    for start in chosen:
        console.print(Text(start.name, "bold"))
        for setting in services[start.name]:
            console.print(_line(setting, origin, start), soft_wrap=True)


@config.command
def schema() -> None:
    """Prints the JSON schema of the configuration file, for editors and checks."""
    with ThreadPoolExecutor(2) as pool:
        found = list(pool.map(_described, [*_to_start(None), Start("picker", PICKER)]))
    print_json(
        {
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            "title": "Headrace's configuration file: a table per service",
            "type": "object",
            "properties": {described["section"]: described["schema"] for described in found},
        }
    )


@config.command
def reference() -> None:
    """Prints a page in Markdown: all settings with type, unit, default, variable and meaning, and the flags of up.

    What this machine's environment and files say has no part in it.
    """
    # It reads the flags of `headrace up`, and so all that a platform is started with.
    from headrace.cli.commands.reference.settings_page import settings_page

    clean = {name: value for name, value in os.environ.items() if not name.startswith("HEADRACE_")}
    with ThreadPoolExecutor(2) as pool:
        services = list(pool.map(_described, [Start(kind, kind, environment=clean) for kind in SERVICE_ROLES]))
    sys.stdout.write(settings_page(services, [_described(Start("picker", PICKER, environment=clean))]))


def _to_start(file: Path | None) -> list[Start]:
    """Returns services as they would start from here."""
    arguments = [] if file is None else ["--config", str(file.expanduser())]
    return [Start(kind, kind, arguments) for kind in SERVICE_ROLES]


def _running(state_dir: Path) -> list[Start]:
    """Returns the services that run on a state folder; none where no platform does."""
    try:
        services = read_platform(state_dir)["services"]
    except NotFound:
        return []
    starts = read_starts(state_dir)
    found = [_start_of(each["name"], each["pid"], starts[each["name"]]) for each in services if each["name"] in starts]
    return [start for start in found if start is not None]


def _start_of(name: str, pid: int, start: Mapping[str, Any]) -> Start | None:
    """Returns what a process was started with. None: it is no service of Headrace, or has just ended."""
    # Comes with what runs a platform; without one, the command works too.
    import psutil

    try:
        process = psutil.Process(pid)
        environment = process.environ() | start["environment"]
    except psutil.Error:
        return None
    kind = start["module"].removeprefix("headrace.")
    return Start(name, kind, start["arguments"], environment, is_running=True) if kind in SERVICE_ROLES else None


def _described(start: Start) -> dict[str, Any]:
    """Asks a service for its settings. Raises ConfigError with its own words."""
    command = [sys.executable, "-P", "-m", f"headrace.{start.kind}", DESCRIBE_FLAG, *start.arguments]
    try:
        done = subprocess.run(
            command, env=start.environment, capture_output=True, text=True, timeout=TIMEOUT, check=False
        )
        if done.returncode == 0:
            found: dict[str, Any] = json_format.loads(done.stdout)
            return found
        lines = done.stderr.strip().splitlines()
        raise ConfigError(lines[-1] if lines else f"{start.kind} did not describe its settings")
    except subprocess.TimeoutExpired:
        raise ConfigError(f"{start.kind} did not describe its settings within {TIMEOUT:.0f} s") from None


def _line(setting: dict[str, Any], with_origin: bool, start: Start) -> Text:
    place = str(setting["origin"])
    is_default = place == "default"
    # The flags of a service that runs are no person's.
    place = f"headrace up, as {place}" if start.is_running and place.startswith("flag ") else place
    line = Text(f"  {setting['name']} = ")
    line.append(_written(setting["value"]), "" if is_default else "bold cyan")
    if with_origin:
        line.append(f"  from {place}" if not is_default else "  default", "dim")
    if setting["value"] != setting["default"]:
        line.append(f"  (default: {_written(setting['default'])})", "dim")
    return line.append(f"\n      {setting['help']}", "dim")


def _written(value: Any) -> str:
    return "unset" if value is None else json_format.dumps(value, ensure_ascii=False)
