"""`headrace ps`: shows the services of a running platform."""

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter
from rich.table import Table
from rich.text import Text

from headrace.cli.output import console, print_json
from headrace.supervisor.state import DEFAULT_FOLDER, read_platform

_STYLES = {"ready": "green", "starting": "yellow", "restarting": "red", "stopped": "dim"}


def ps(*, state_dir: Path = DEFAULT_FOLDER, json: Annotated[bool, Parameter(negative="")] = False) -> None:
    """Shows the services of a running platform.

    Parameters
    ----------
    state_dir
        The state folder that the platform was started with.
    json
        Print one JSON object.
    """
    platform = read_platform(state_dir)
    if json:
        print_json(platform)
        return
    table = Table(box=None, header_style="dim", pad_edge=False)
    for title in ("service", "state", "pid", "address", "restarts", "model"):
        table.add_column(title)
    for service in platform["services"]:
        state = Text(service["state"], style=_STYLES.get(service["state"], ""))
        restarts = Text(str(service["restarts"]), style="red" if service["restarts"] else "dim")
        table.add_row(
            service["name"], state, str(service["pid"] or ""), service["address"], restarts, service.get("model")
        )
    console.print(table)
