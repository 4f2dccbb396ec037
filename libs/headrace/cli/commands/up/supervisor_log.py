"""Log of the process that starts and watches the services, beside theirs and in their form."""

import logging
import os
import sys
from pathlib import Path

from headrace.supervisor.files.log_rotation import rotate
from headrace.supervisor.platform import Platform
from headrace.supervisor.state import SUPERVISOR_LOG
from headrace.telemetry.logs import JsonFormatter


class SupervisorLog:
    """Writes a line for each change of a service. It begins a new file, and keeps that of the run before. Use it as a
    context manager."""

    def __init__(self, path: Path) -> None:
        rotate(path, max_bytes=0)
        self.path = path
        self._states: dict[str, str] = {}
        self._handler = logging.FileHandler(path)
        self._handler.setFormatter(JsonFormatter(SUPERVISOR_LOG))
        # Not one of the tree: what other loggers of this process say goes elsewhere.
        self._log = logging.Logger("headrace.supervisor")
        self._log.addHandler(self._handler)

    def __enter__(self) -> "SupervisorLog":
        return self

    def __exit__(self, *_: object) -> None:
        self._handler.close()

    def take_stderr(self) -> None:
        """Has this process write its errors there too, in place of a terminal that may go away."""
        descriptor = os.open(self.path, os.O_WRONLY | os.O_APPEND)
        os.dup2(descriptor, sys.stderr.fileno())
        os.close(descriptor)

    def say(self, message: str, **facts: object) -> None:
        self._log.info(message, extra=facts)

    def write_changes(self, platform: Platform) -> None:
        """Writes what has changed since the last call."""
        for process in platform.processes:
            name, state = process.spec.name, process.state
            if self._states.get(name) == state:
                continue
            self._states[name] = state
            facts: dict[str, object] = {} if process.pid is None else {"pid": process.pid}
            if state == "restarting":
                ended = {"exit_code": process.exit_code, "restarts": process.restarts}
                self._log.warning(f"{name} has ended, and is started again", extra=facts | ended)
            else:
                self._log.info(f"{name} is {state}", extra=facts)
