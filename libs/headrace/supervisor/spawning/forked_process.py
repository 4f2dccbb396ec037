"""A child that a fork server made."""

import asyncio
import os
import signal


class ForkedProcess:
    """A child of this process that it did not start itself."""

    def __init__(self, pid: int) -> None:
        """Takes a child over. Raises ChildProcessError for another process."""
        self.pid = pid
        self.returncode: int | None = None
        os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        self._descriptor = os.pidfd_open(pid)
        self._ended: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        asyncio.get_running_loop().add_reader(self._descriptor, self._reap)

    async def wait(self) -> int:
        """Waits until it has ended. Returns its exit code, negative for a signal."""
        # A caller that stops waiting leaves the others waiting.
        return await asyncio.shield(self._ended)

    def terminate(self) -> None:
        """Sends SIGTERM. Raises ProcessLookupError when it has ended."""
        self._send(signal.SIGTERM)

    def kill(self) -> None:
        """Sends SIGKILL. Raises ProcessLookupError when it has ended."""
        self._send(signal.SIGKILL)

    def _send(self, number: signal.Signals) -> None:
        if self.returncode is not None:
            raise ProcessLookupError(f"process {self.pid} has ended")
        signal.pidfd_send_signal(self._descriptor, number)

    def _reap(self) -> None:
        asyncio.get_running_loop().remove_reader(self._descriptor)
        self.returncode = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        os.close(self._descriptor)
        self._ended.set_result(self.returncode)
