"""Command lines to show to the user."""

import shlex
import shutil
import sys
from pathlib import Path

from headrace.supervisor.state import DEFAULT_FOLDER


def own_command() -> str:
    """Returns the command line that runs this program from the current folder."""
    path = Path(sys.argv[0]).absolute()
    if shutil.which("headrace") or path.name != "headrace":
        return "headrace"
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else str(path)


def state_flag(state_dir: Path) -> str:
    """Returns what follows a command that is about the platform of a state folder; empty for the usual one."""
    is_usual = state_dir.expanduser().absolute() == DEFAULT_FOLDER.expanduser().absolute()
    return "" if is_usual else f" --state-dir {shlex.quote(str(state_dir))}"
