"""`headrace up` as a fork of a process that has imported it and all services: imports take most of a start.

python -m tests.harness.forked_up DESCRIPTOR
"""

import atexit
import functools
import importlib
import os
import select
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Sequence

from headrace.launch.roster import SERVICE_ROLES
from headrace.supervisor.spawning.fork_request import ForkRequest
from headrace.supervisor.spawning.fork_server import PID, serve
from headrace.supervisor.spawning.parent_death import adopt_orphans

COMMAND = "headrace.cli"
ANSWER_SECONDS = 60.0


class ForkedUp:
    """Stands in for the `subprocess.Popen` of a command."""

    def __init__(self, pid: int, stdout: int, stderr: int) -> None:
        """`stdout`, `stderr`: descriptors from which its output and its errors are read."""
        self.pid = pid
        self.returncode: int | None = None
        self.stdout, self.stderr = os.fdopen(stdout), os.fdopen(stderr)
        self._descriptor = os.pidfd_open(pid)

    def poll(self) -> int | None:
        if self.returncode is None and select.select([self._descriptor], [], [], 0)[0]:
            self._reap()
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        if self.returncode is None:
            if not select.select([self._descriptor], [], [], timeout)[0]:
                raise subprocess.TimeoutExpired(COMMAND, timeout or 0.0)
            self._reap()
        assert self.returncode is not None
        return self.returncode

    def send_signal(self, number: int) -> None:
        if self.returncode is None:
            signal.pidfd_send_signal(self._descriptor, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def communicate(self) -> tuple[str, str]:
        said = self.stdout.read(), self.stderr.read()
        self.wait()
        return said

    def _reap(self) -> None:
        self.returncode = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        os.close(self._descriptor)


class Forks:
    """The process that forks commands, for as long as the tests run."""

    def __init__(self) -> None:
        adopt_orphans()
        self._asking = threading.Lock()
        self._folder, self._environment = os.getcwd(), dict(os.environ)
        self._socket, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._socket.settimeout(ANSWER_SECONDS)
        command = [sys.executable, "-m", __name__, str(other.fileno()), "." * 200]
        self._process = subprocess.Popen(command, pass_fds=[other.fileno()])
        other.close()
        atexit.register(self._close)

    def is_like_here(self) -> bool:
        """Whether a fork has the folder and the variables of this process."""
        return os.getcwd() == self._folder and self._environment.keys() <= os.environ.keys()

    def start(self, arguments: Sequence[str]) -> ForkedUp:
        changed = {name: value for name, value in os.environ.items() if self._environment.get(name) != value}
        (out, stdout), (err, stderr) = os.pipe(), os.pipe()
        request = ForkRequest(os.getpid(), COMMAND, arguments, changed, [2])
        with self._asking:
            socket.send_fds(self._socket, [request.encoded()], [stdout, stderr])
            answer = self._socket.recv(PID.size)
        os.close(stdout)
        os.close(stderr)
        return ForkedUp(PID.unpack(answer)[0], out, err)

    def _close(self) -> None:
        self._socket.close()
        self._process.wait(ANSWER_SECONDS)


@functools.cache
def _made() -> Forks:
    return Forks()


def start_forked(arguments: Sequence[str]) -> ForkedUp | None:
    """Starts a command. None: a fork would not be what a program is here. The process that forks dies with the thread
    that has started it, which must be the main one."""
    if sys.platform != "linux":
        return None
    if not _made.cache_info().currsize and threading.current_thread() is not threading.main_thread():
        return None
    return _made().start(arguments) if _made().is_like_here() else None


def main() -> None:
    importlib.import_module("headrace.cli.commands.up.up")
    services = [f"headrace.{role}" for role in SERVICE_ROLES]
    serve(socket.socket(fileno=int(sys.argv[1])), os.getppid(), services)


if __name__ == "__main__":
    main()
