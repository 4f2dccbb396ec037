"""`headrace ps`: shows the services of a running platform."""

from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter
from rich.table import Table
from rich.text import Text

from headrace.cli.output import console, print_json
from headrace.cli.target import AuthorityFlag, trust
from headrace.cli.terminal.platform_load import busy_utilization, read_metrics
from headrace.cli.terminal.state_styles import STATE_STYLES
from headrace.errors import Unavailable
from headrace.supervisor.state import DEFAULT_FOLDER, read_platform


def ps(
    *,
    state_dir: Path = DEFAULT_FOLDER,
    ca: AuthorityFlag = None,
    json: Annotated[bool, Parameter(negative="")] = False,
) -> None:
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
        trust(ca, platform)
        print_json(platform | {"services": _with_utilization(platform)})
        return
    table = Table(box=None, header_style="dim", pad_edge=False)
    for title in ("service", "state", "pid", "address", "restarts", "model"):
        table.add_column(title)
    for service in platform["services"]:
        state = Text(service["state"], style=STATE_STYLES.get(service["state"], ""))
        restarts = Text(str(service["restarts"]), style="red" if service["restarts"] else "dim")
        table.add_row(
            service["name"], state, str(service["pid"] or ""), service["address"], restarts, service.get("model")
        )
    console.print(table)


def _with_utilization(platform: dict[str, Any]) -> list[dict[str, Any]]:
    """Returns the services, workers with their MBU and MFU while busy; without them while no gateway answers."""
    services: list[dict[str, Any]] = platform["services"]
    try:
        metrics = read_metrics(platform["http"], "")
    except Unavailable:
        return services
    return [each | (busy_utilization(metrics, each["name"]) if each.get("model") else {}) for each in services]
