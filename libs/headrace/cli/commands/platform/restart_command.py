"""`headrace restart`: stops a running platform and starts it with the same arguments."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from headrace.cli.commands.platform.stop_command import PATIENCE, check_timeout, stop_and_say
from headrace.cli.commands.up.background_start import BACKGROUND_FLAG, BackgroundStart
from headrace.cli.commands.up.detached import follow_start
from headrace.cli.commands.up.ready_page import ReadyPage
from headrace.cli.other_words import translated
from headrace.cli.output import console
from headrace.errors import NotFound, Unavailable
from headrace.supervisor.state import DEFAULT_FOLDER
from headrace.supervisor.stopping.running_supervisor import RunningSupervisor


@dataclass(frozen=True, slots=True)
class FormerStart:
    """Start of the platform that runs: what it takes to start it once more."""

    arguments: Sequence[str]
    """Arguments of `headrace up`, without its name."""
    folder: Path
    environment: Mapping[str, str]

    @property
    def was_in_background(self) -> bool:
        return BACKGROUND_FLAG in self.arguments


def restart(
    *,
    timeout: float = PATIENCE,
    state_dir: Path = DEFAULT_FOLDER,
    json: Annotated[bool, Parameter(negative="")] = False,
) -> None:
    """Stops a running platform, and starts it in the background with the arguments, the environment and the current
    folder that it was started with. New code and new files are used.

    Parameters
    ----------
    timeout
        Seconds after which all services are stopped at once, and then by force.
    state_dir
        The state folder that the platform was started with.
    json
        Print one JSON object per line; when ready, one with "event": "ready".
    """
    check_timeout(timeout)
    supervisor = RunningSupervisor.find(state_dir)
    if supervisor is None:
        raise NotFound(f"no platform runs on {supervisor_folder(state_dir)}. Start one with: headrace up --detach")
    start = former_start(supervisor.identity.pid)
    stop_and_say(supervisor, timeout, as_json=json)
    began = time.time()
    described = follow_start(BackgroundStart(start.arguments, start.folder, start.environment), as_json=json)
    if json:
        return
    if not start.was_in_background:
        console.print("[dim]It ran in a terminal, and runs in the background now.[/]")
    ReadyPage(state_dir, described.get("keys"), began).print(described, (), in_background=True)


def supervisor_folder(state_dir: Path) -> Path:
    """Returns a state folder as it is shown."""
    return state_dir.expanduser().absolute()


def former_start(pid: int) -> FormerStart:
    """Reads how a process was started. Raises Unavailable for one that is no `headrace up`."""
    # Comes with what runs a platform; other commands work without it.
    import psutil

    try:
        process = psutil.Process(pid)
        return FormerStart(up_arguments(process.cmdline()), Path(process.cwd()), process.environ())
    except psutil.Error as error:
        raise Unavailable(f"cannot read how pid {pid} was started ({error}): stop it, and start another") from None


def up_arguments(words: Sequence[str]) -> list[str]:
    """Returns the arguments in a command line of `headrace up`. Raises Unavailable for another one."""
    for place, word in enumerate(words[:-1]):
        is_program = word == "headrace.cli" or Path(word).name == "headrace"
        if is_program and translated(words[place + 1 : place + 2]) == ["up"]:
            return list(words[place + 2 :])
    raise Unavailable(f"the platform was not started with headrace up, but with: {' '.join(words)}")
