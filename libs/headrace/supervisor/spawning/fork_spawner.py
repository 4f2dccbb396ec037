"""Starts services as forks of a process that has imported them: at once, and with pages of memory in common."""

import asyncio
import contextlib
import os
import signal
import socket
import sys
import threading
from collections.abc import Sequence

from headrace.supervisor.spawning.fork_request import MAX_BYTES, ForkRequest
from headrace.supervisor.spawning.fork_server import MAX_DESCRIPTORS, PID, serve
from headrace.supervisor.spawning.forked_process import ForkedProcess
from headrace.supervisor.spawning.orphans import Orphans
from headrace.supervisor.spawning.parent_death import adopt_orphans, adopts_orphans
from headrace.supervisor.spawning.process_start import ProcessStart
from headrace.supervisor.spawning.program_spawner import ProgramSpawner
from headrace.supervisor.spawning.running_process import RunningProcess

ANSWER_SECONDS = 30.0
"""Seconds for an answer of the fork server, which imports all services first."""


class ForkSpawner:
    """Asks a fork server for services. Without an answer from one, and for all else, executes the command."""

    def __init__(self, services: Sequence[str]) -> None:
        """Forks the fork server from this process, if that has no other thread. `services`: modules that it imports."""
        self._programs = ProgramSpawner()
        self._orphans = Orphans()
        self._asking = asyncio.Lock()
        self._socket: socket.socket | None = None
        self.server_pid = 0
        self._adopted_before = adopts_orphans()
        # A fork of a process with several threads may find locks that no thread will ever release.
        if sys.platform == "linux" and threading.active_count() == 1 and adopt_orphans():
            self._fork_server(services)

    def _fork_server(self, services: Sequence[str]) -> None:
        self._socket, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        supervisor = os.getpid()
        sys.stdout.flush()
        sys.stderr.flush()
        self.server_pid = os.fork()
        if not self.server_pid:
            self._socket.close()
            serve(other, supervisor, services)
        other.close()
        self._socket.setblocking(False)

    async def spawn(self, start: ProcessStart) -> RunningProcess:
        """Starts a process. Raises OSError."""
        async with self._asking:
            process = await self._forked(start)
        return process or await self._programs.spawn(start)

    async def _forked(self, start: ProcessStart) -> ForkedProcess | None:
        """Has a service forked. None: it cannot be."""
        if not start.is_importable or self._socket is None or len(start.descriptors) >= MAX_DESCRIPTORS:
            return None
        request = ForkRequest(os.getpid(), start.module, start.arguments, start.environment, start.descriptors)
        if len(content := request.encoded()) > MAX_BYTES:
            return None
        try:
            with start.log_path.open("ab") as log:
                socket.send_fds(self._socket, [content], [log.fileno(), *start.descriptors])
            async with asyncio.timeout(ANSWER_SECONDS):
                answer = await asyncio.get_running_loop().sock_recv(self._socket, PID.size)
            pid = PID.unpack(answer)[0] if answer else 0
            process = ForkedProcess(pid) if pid else None
        except (OSError, TimeoutError):
            process = None
        if process is None:
            self._give_up()
            return None
        self._orphans.add_session(process.pid)
        return process

    def _give_up(self) -> None:
        """Ends a fork server that does not answer, and what it has forked too late."""
        self._end_server()
        with contextlib.suppress(OSError):
            while answer := self._socket.recv(PID.size) if self._socket else b"":
                os.kill(PID.unpack(answer)[0], signal.SIGKILL)
        self.close()

    def close(self) -> None:
        """Ends the fork server. Services that it has forked keep running."""
        if self._socket is not None:
            self._end_server()
            self._socket.close()
            self._socket = None
            # Without anything that asks for their exit statuses, orphans of the caller's later processes would stay.
            adopt_orphans(self._adopted_before)

    def _end_server(self) -> None:
        with contextlib.suppress(ProcessLookupError, ChildProcessError):
            os.kill(self.server_pid, signal.SIGKILL)
            os.waitpid(self.server_pid, 0)
