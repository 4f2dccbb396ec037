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
from collections.abc import Callable, Sequence

import psutil

from headrace.launch.roster import SERVICE_ROLES
from headrace.supervisor.spawning.fork_request import MAX_BYTES, ForkRequest
from headrace.supervisor.spawning.fork_server import MAX_DESCRIPTORS, PID, become, import_services
from headrace.supervisor.spawning.parent_death import die_with_parent

COMMAND = "headrace.cli"
ANSWER_SECONDS = 60.0


class ForkedUp:
    """Stands in for the `subprocess.Popen` of a command."""

    def __init__(self, pid: int, stdout: int, stderr: int, code_of: Callable[[int], int]) -> None:
        """`stdout`, `stderr`: descriptors from which its output and its errors are read. `code_of` asks for the exit
        code of a process that has ended."""
        self.pid = pid
        self._code_of = code_of
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
        self.returncode = self._code_of(self.pid)
        os.close(self._descriptor)


class Forks:
    """The process that forks commands, for as long as the tests run."""

    def __init__(self) -> None:
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
        pid = self._ask(ForkRequest(os.getpid(), COMMAND, arguments, changed, [2]).encoded(), [stdout, stderr])
        os.close(stdout)
        os.close(stderr)
        return ForkedUp(pid, out, err, self._code_of)

    def processor_seconds(self) -> float:
        """Processor time of the process that forks, and of the commands that have ended."""
        times = psutil.Process(self._process.pid).cpu_times()
        return times.user + times.system + times.children_user + times.children_system

    def _code_of(self, pid: int) -> int:
        return self._ask(PID.pack(pid), [])

    def _ask(self, request: bytes, descriptors: Sequence[int]) -> int:
        with self._asking:
            socket.send_fds(self._socket, [request], descriptors)
            return int(PID.unpack(self._socket.recv(PID.size))[0])

    def _close(self) -> None:
        # Also where a process that a test has forked still has a copy of the socket.
        self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        self._process.wait(ANSWER_SECONDS)


@functools.cache
def _made() -> Forks:
    return Forks()


def forked_processor_seconds() -> float:
    """Processor time of the commands of this process that have ended."""
    return _made().processor_seconds() if _made.cache_info().currsize else 0.0


def prepare_forks() -> None:
    """Starts the process that forks, so that other threads can use it: a platform ends with it, and it with the main
    thread, however that ends."""
    if sys.platform == "linux" and threading.current_thread() is threading.main_thread():
        _made()


def start_forked(arguments: Sequence[str]) -> ForkedUp | None:
    """Starts a command. None: a fork would not be what a program is here. The process that forks dies with the thread
    that has started it, which must be the main one."""
    if sys.platform != "linux":
        return None
    if not _made.cache_info().currsize and threading.current_thread() is not threading.main_thread():
        return None
    return _made().start(arguments) if _made().is_like_here() else None


def main() -> None:
    """Forks a command for each request, until the socket is closed. A request without descriptors is the id of a
    process that has ended: the answer is its exit code."""
    tests = socket.socket(fileno=int(sys.argv[1]))
    die_with_parent()
    importlib.import_module("headrace.cli.commands.up.up")
    import_services([f"headrace.{role}" for role in SERVICE_ROLES])
    while (message := socket.recv_fds(tests, MAX_BYTES, MAX_DESCRIPTORS))[0]:
        request, descriptors = message[:2]
        if not descriptors:
            tests.send(PID.pack(os.waitstatus_to_exitcode(os.waitpid(PID.unpack(request)[0], 0)[1])))
            continue
        if not (pid := os.fork()):
            tests.close()
            die_with_parent()
            become(ForkRequest.decoded(request), descriptors)
        for descriptor in descriptors:
            os.close(descriptor)
        tests.send(PID.pack(pid))


if __name__ == "__main__":
    main()
