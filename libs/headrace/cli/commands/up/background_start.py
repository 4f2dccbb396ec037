"""Start of a platform in a process of its own, which outlives the command and its terminal."""

import json
import os
import select
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from headrace.domain.deadline import Deadline
from headrace.errors import ConfigError, Unavailable

BACKGROUND_FLAG = "--in-background"
"""Flag of the process that is started. It is in no help: `headrace up --detach` is how people start it."""
ADDED_FLAGS = (BACKGROUND_FLAG, "--json")
DETACH_FLAGS = ("--detach", "-d")
ABANDON_SECONDS = 20.0
"""Seconds that a start which is given up has to end in order."""
_CHUNK = 65536


class BackgroundStart:
    """Starts the process, and reads what it reports until it is ready. It reports no further once it is left."""

    def __init__(
        self, arguments: Sequence[str], folder: Path | None = None, environment: Mapping[str, str] | None = None
    ) -> None:
        """`arguments`: those of `headrace up`, without its name. `folder`: the one to which relative paths belong."""
        own = [each for each in arguments if each not in (*DETACH_FLAGS, *ADDED_FLAGS)]
        self._errors = tempfile.TemporaryFile("w+")  # noqa: SIM115 - it is open as long as the start is followed
        try:
            self._process = subprocess.Popen(
                # -P: files of the current folder are no modules of the command.
                [sys.executable, "-P", "-m", "headrace.cli", "up", *own, *ADDED_FLAGS],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=self._errors,
                cwd=folder,
                env=None if environment is None else dict(environment),
                # In a session of its own: neither the end of a terminal nor its Ctrl-C reaches it.
                start_new_session=True,
            )
        except OSError as error:
            self._errors.close()
            raise ConfigError(f"cannot start in {folder}: {error.strerror}") from None

    @property
    def pid(self) -> int:
        return self._process.pid

    def events(self, deadline: Deadline) -> Iterator[dict[str, Any]]:
        """Yields what it reports, to the one that it is ready. Raises ConfigError with its own message when it has
        failed, and Unavailable when it says nothing until the deadline."""
        for line in self._lines(deadline):
            event: dict[str, Any] = json.loads(line)
            if event["event"] == "error":
                self._wait(deadline)
                raise ConfigError(str(event["message"]))
            yield event
            if event["event"] == "ready":
                return
        code = self._wait(deadline)
        self._errors.seek(0)
        said = self._errors.read().strip().splitlines()
        reason = f": {said[-1]}" if said else "; headrace logs supervisor has its last lines"
        raise Unavailable(f"the platform ended with code {code} while it started{reason}")

    def leave(self) -> None:
        """Lets it run alone."""
        if self._process.stdout is not None:
            self._process.stdout.close()
        self._errors.close()

    def give_up(self) -> None:
        """Ends it: in order, or by force after ABANDON_SECONDS."""
        self._process.send_signal(signal.SIGTERM)
        try:
            self._process.wait(ABANDON_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait(ABANDON_SECONDS)
        self.leave()

    def _lines(self, deadline: Deadline) -> Iterator[bytes]:
        """Yields whole lines until the other side closes. Raises Unavailable at the deadline."""
        assert self._process.stdout is not None  # noqa: S101 - it is a pipe
        descriptor, unread = self._process.stdout.fileno(), b""
        while True:
            if not select.select([descriptor], [], [], deadline.remaining)[0]:
                raise Unavailable(f"the platform (pid {self.pid}) did not become ready in time")
            if not (chunk := os.read(descriptor, _CHUNK)):
                return
            *lines, unread = (unread + chunk).split(b"\n")
            yield from lines

    def _wait(self, deadline: Deadline) -> int:
        try:
            return self._process.wait(deadline.remaining)
        except subprocess.TimeoutExpired:
            self.give_up()
            raise Unavailable(f"the platform (pid {self.pid}) failed, and did not end") from None
