"""Followers that are forked from a process which has imported torch, because the import takes most of a start.

    python -m tests.libs.engine.parallel.forked_followers [MODULE ARGUMENT ...]

It reads an address of a first rank per line, and answers with the number of the process that follows there, in which
function `prepare` of the module has run with the arguments.
"""

import contextlib
import importlib
import os
import signal
import subprocess
import sys
from collections.abc import Sequence

import psutil

END_SECONDS = 60.0


class ForkedFollower:
    """Stands in for the `subprocess.Popen` of a group, for a process that another one forked."""

    def __init__(self, pid: int) -> None:
        self._process = psutil.Process(pid)

    def wait(self, timeout: float) -> None:
        """Raises subprocess.TimeoutExpired, as a group expects it."""
        try:
            self._process.wait(timeout)
        except psutil.TimeoutExpired:
            raise subprocess.TimeoutExpired("follower", timeout) from None

    def kill(self) -> None:
        self._process.kill()


class ForkedFollowers:
    """The process that forks followers."""

    def __init__(self, *preparation: str) -> None:
        """`preparation`: a module with a function `prepare`, and its arguments."""
        command = [sys.executable, "-m", __name__, *preparation]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def start(self, command: Sequence[str]) -> ForkedFollower:
        """Forks what the command of a group would run."""
        assert command[2:5] == ["-m", "headrace.engine.parallel.follower", "--leader"], command
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{command[5]}\n")
        self._process.stdin.flush()
        return ForkedFollower(int(self._process.stdout.readline()))

    def running(self) -> list[psutil.Process]:
        """Followers that have not ended."""
        return psutil.Process(self._process.pid).children()

    def close(self) -> None:
        """Ends the process that forks. Followers end with their groups."""
        self._process.communicate(timeout=END_SECONDS)


def reap(_number: int, _frame: object) -> None:
    """Waits for followers that have ended."""
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def main() -> None:
    from headrace.engine.parallel import follower

    module, *arguments = sys.argv[1:] or [""]
    prepare = importlib.import_module(module).prepare if module else lambda: None
    signal.signal(signal.SIGCHLD, reap)
    while address := sys.stdin.readline().strip():
        pid = os.fork()
        if not pid:
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            prepare(*arguments)
            sys.argv = ["follower", "--leader", address]
            follower.main()
        print(pid, flush=True)


if __name__ == "__main__":
    main()
