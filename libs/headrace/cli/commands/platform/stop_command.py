"""`headrace stop`: ends a running platform."""

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter
from rich.markup import escape

from headrace.cli.output import console, print_json
from headrace.errors import InvalidRequest
from headrace.supervisor.state import DEFAULT_FOLDER
from headrace.supervisor.stopping.platform_stop import Stopped, end_leftovers, stop_platform
from headrace.supervisor.stopping.running_supervisor import RunningSupervisor

PATIENCE = 30.0
"""Seconds that a platform has to stop in order. It needs less: each of its services has a limit of its own."""


def stop(
    *,
    timeout: float = PATIENCE,
    state_dir: Path = DEFAULT_FOLDER,
    json: Annotated[bool, Parameter(negative="")] = False,
) -> None:
    """Stops a running platform as Ctrl-C does: running requests may finish, within their limits. Where none runs, there
    is nothing to do.

    Parameters
    ----------
    timeout
        Seconds after which all services are stopped at once, and then by force.
    state_dir
        The state folder that the platform was started with.
    json
        Print one JSON object.
    """
    check_timeout(timeout)
    supervisor = RunningSupervisor.find(state_dir)
    if supervisor is None:
        found = end_leftovers(state_dir, _no_words if json else say)
        text = "what a killed platform left is removed" if found else "nothing to stop"
        report("not running", f"no platform runs on {state_dir.expanduser().absolute()}: {text}", json)
        return
    how = stop_and_say(supervisor, timeout, as_json=json)
    report(how, "Stopped." if how == "stopped" else "Stopped, by force.", json)


def check_timeout(timeout: float) -> None:
    """Raises InvalidRequest for a time that cannot be."""
    if timeout <= 0:
        raise InvalidRequest(f"--timeout is {timeout:g}; it must be above 0", param="timeout")


def stop_and_say(supervisor: RunningSupervisor, timeout: float, *, as_json: bool) -> Stopped:
    """Stops a platform, and says what it waits for."""
    if not as_json:
        say(f"Stopping the platform on {supervisor.folder} (pid {supervisor.identity.pid}) …")
    return stop_platform(supervisor, timeout, _no_words if as_json else lambda text: say(f"  {text}"))


def say(text: str) -> None:
    """Prints a line about the way to the end."""
    console.print(f"[dim]{escape(text)}[/]", soft_wrap=True)


def report(outcome: str, text: str, as_json: bool) -> None:
    """Prints the outcome, for people or for programs."""
    if as_json:
        print_json({"outcome": outcome})
    else:
        console.print(text, soft_wrap=True, markup=False)


def _no_words(_: str) -> None:
    """Says nothing."""
