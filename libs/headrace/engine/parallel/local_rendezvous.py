"""Rendezvous on this machine: the first rank starts the others, and they come to it over loopback."""

import subprocess
import sys
import time

from headrace.engine.parallel.rendezvous import AddressedRendezvous

LOOPBACK = "127.0.0.1"
END_SECONDS = 10.0
"""Time that the other ranks have to end after their connection."""


class LocalRendezvous(AddressedRendezvous):
    """Listens on loopback, and owns the processes of the other ranks."""

    def __init__(self, world_size: int) -> None:
        """Starts the other ranks."""
        super().__init__(f"{LOOPBACK}:0", world_size)
        address = f"{LOOPBACK}:{self.port}"
        command = [sys.executable, "-P", "-m", "headrace.engine.parallel.follower", "--leader", address]
        # The first rank listens already: if it does not answer, it has ended, and so must its ranks.
        command += ["--connect-seconds", "0"]
        self._processes = [subprocess.Popen(command) for _ in range(world_size - 1)]

    def end(self) -> None:
        """Waits until the other ranks have ended, and kills the late ones."""
        limit = time.monotonic() + END_SECONDS
        for process in self._processes:
            try:
                process.wait(max(0.0, limit - time.monotonic()))
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait(END_SECONDS)
