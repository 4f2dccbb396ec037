"""Descendants whose parents have ended."""

import asyncio
import contextlib
import os
import signal


class Orphans:
    """Reaps what services have left behind once it has ended, because a supervisor adopts it."""

    def __init__(self) -> None:
        self._sessions: set[int] = set()

    def add_session(self, number: int) -> None:
        """Looks from now on for processes of a session, which its leader is asked for elsewhere."""
        if not self._sessions:
            asyncio.get_running_loop().add_signal_handler(signal.SIGCHLD, self._reap)
        self._sessions.add(number)

    def _reap(self) -> None:
        # Comes with what runs a platform.
        import psutil

        for child in psutil.Process().children():
            with contextlib.suppress(psutil.Error, OSError):
                session = os.getsid(child.pid)
                if child.status() == psutil.STATUS_ZOMBIE and session in self._sessions - {child.pid}:
                    os.waitpid(child.pid, os.WNOHANG)
