"""`headrace up` as a fork of a process that has imported it and all services: imports take most of a start.

python -m tests.harness.forked_up DESCRIPTOR
"""

import functools
import importlib
import os
import select
import signal
import socket
import subprocess
import sys
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
        self._folder, self._environment = os.getcwd(), dict(os.environ)
        self._socket, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._socket.settimeout(ANSWER_SECONDS)
        command = [sys.executable, "-m", __name__, str(other.fileno()), "." * 200]
        self._process = subprocess.Popen(command, pass_fds=[other.fileno()])
        other.close()

    def is_like_here(self) -> bool:
        """Whether a fork has the folder and the variables of this process."""
        return os.getcwd() == self._folder and self._environment.keys() <= os.environ.keys()

    def start(self, arguments: Sequence[str]) -> ForkedUp:
        changed = {name: value for name, value in os.environ.items() if self._environment.get(name) != value}
        (out, stdout), (err, stderr) = os.pipe(), os.pipe()
        request = ForkRequest(os.getpid(), COMMAND, arguments, changed, [2])
        socket.send_fds(self._socket, [request.encoded()], [stdout, stderr])
        os.close(stdout)
        os.close(stderr)
        return ForkedUp(PID.unpack(self._socket.recv(PID.size))[0], out, err)


@functools.cache
def forks() -> Forks:
    return Forks()


def main() -> None:
    importlib.import_module("headrace.cli.commands.up.up")
    services = [f"headrace.{role}" for role in SERVICE_ROLES]
    serve(socket.socket(fileno=int(sys.argv[1])), os.getppid(), services)


if __name__ == "__main__":
    main()
