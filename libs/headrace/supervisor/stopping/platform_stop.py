"""Stop of a running platform: as Ctrl-C does it, then at once, then by force. Nothing of it is left."""

import contextlib
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from headrace.domain.deadline import Deadline
from headrace.errors import ConfigError, Unavailable
from headrace.supervisor.state import CREDENTIAL_FILE, LOCK_FILE, PLATFORM_FILE, StateFolder, last_platform
from headrace.supervisor.stopping.running_supervisor import RunningSupervisor, service_identities
from headrace.supervisor.system.process_identity import ProcessIdentity

LOOK_SECONDS = 0.1
QUIET_SECONDS = 1.0
"""Seconds of a wait about which nothing is said."""
HARDER_SECONDS = 5.0
"""Seconds for each step after the first one, which has its own deadline."""

Stopped = Literal["stopped", "killed"]
Telling = Callable[[str], None]


def stop_platform(supervisor: RunningSupervisor, patience: float, tell: Telling) -> Stopped:
    """Stops a platform and returns how: it gets `patience` seconds to do so in order. `tell` is called with what is
    waited for. Raises Unavailable if even force does not end it."""
    family = _family(supervisor.identity)
    supervisor.send(signal.SIGTERM)
    if _is_gone(supervisor, patience, tell):
        _end(family, tell)
        return "stopped"
    family += _family(supervisor.identity)
    tell(f"still running after {patience:g} s: stopping all services at once")
    supervisor.send(signal.SIGTERM)
    if not _is_gone(supervisor, HARDER_SECONDS, lambda _: None):
        tell(f"pid {supervisor.identity.pid} does not react: killing it and its services")
        supervisor.send(signal.SIGKILL)
        if not _is_gone(supervisor, HARDER_SECONDS, lambda _: None):
            raise Unavailable(f"pid {supervisor.identity.pid} does not end, even when it is killed")
    _end(family, tell)
    clean_up(supervisor.folder)
    return "killed"


def end_leftovers(folder: Path, tell: Telling) -> bool:
    """Ends the services that a killed platform left running, and removes what it left in its folder. Returns whether
    there was anything."""
    described = last_platform(folder)
    family = list(service_identities(described))
    _end(family, tell)
    if described:
        clean_up(folder)
    return bool(described)


def clean_up(folder: Path) -> None:
    """Removes what a killed platform left in its state folder, unless another runs there by now."""
    path = folder.expanduser().absolute()
    if any((path / name).exists() for name in (PLATFORM_FILE, CREDENTIAL_FILE, LOCK_FILE)):
        # Who enters holds the lock, and removes these files on leaving.
        with contextlib.suppress(ConfigError, OSError), StateFolder(path):
            pass


def _family(identity: ProcessIdentity) -> list[ProcessIdentity]:
    """Returns the children of a process, and theirs."""
    # Comes with what runs a platform; other commands work without it.
    import psutil

    try:
        children = psutil.Process(identity.pid).children(recursive=True) if identity.is_alive else []
    except psutil.Error:
        return []
    return [found for child in children if (found := ProcessIdentity.of(child.pid)) is not None]


def _is_gone(supervisor: RunningSupervisor, seconds: float, tell: Telling) -> bool:
    """Waits until a supervisor has ended. After a while, says what it waits for whenever that changes."""
    deadline, quiet, said = Deadline.after(seconds), Deadline.after(QUIET_SECONDS), ""
    while supervisor.identity.is_alive:
        if deadline.expired:
            return False
        if quiet.expired and (waiting := awaited(supervisor.describe())) not in ("", said):
            tell(waiting)
            said = waiting
        time.sleep(LOOK_SECONDS)
    return True


def awaited(described: Mapping[str, Any]) -> str:
    """Says what a platform that stops waits for; empty before it stops, and at its end."""
    if described.get("state") != "stopping":
        return ""
    names = [str(each["name"]) for each in described["services"] if each["state"] != "stopped"]
    gateways = [name for name in names if name.partition("-")[0] == "gateway"]
    if gateways:
        return f"{' and '.join(gateways)}: running requests may finish"
    return ", ".join(names)


def _end(family: Sequence[ProcessIdentity], tell: Telling) -> None:
    """Kills what is left of processes. Raises Unavailable if one does not end."""
    deadline = Deadline.after(HARDER_SECONDS)
    # The last helper of a killed process may notice only now that it is alone.
    grace = Deadline.after(1.0)
    while left := [process for process in family if process.is_alive]:
        if deadline.expired:
            pids = ", ".join(str(process.pid) for process in left)
            raise Unavailable(f"these processes do not end, even when they are killed: {pids}")
        if grace.expired:
            for process in left:
                process.send(signal.SIGKILL)
        time.sleep(LOOK_SECONDS)
