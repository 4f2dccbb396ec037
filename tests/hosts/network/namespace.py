"""Namespaces of one host: its network, its files of names and its clocks since the start, apart from this machine's."""

import ctypes
import os
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

START_SECONDS = 10.0
CLONE_NEWNET = 0x40000000
DIE_WITH_ME = ("setpriv", "--pdeathsig", "KILL", "--")
"""Prefix of a command that ends with the process that starts it, however that ends."""
NAMES = 'mount --bind "$0" /etc/hosts && mount --bind /dev/null /etc/resolv.conf'
KEEPER = f"{NAMES} && ip link set lo up && exec sleep inf"


class Namespace:
    """Namespaces without a name, so that two runs share nothing, and that are gone with the last process in them."""

    def __init__(self, hosts: Path, uptime: int) -> None:
        """`hosts`: the file that is its /etc/hosts. `uptime`: seconds that it has been up for longer than this machine,
        so that monotonic clocks of hosts differ as those of machines do."""
        clocks = ("--time", "--monotonic", str(uptime), "--boottime", str(uptime))
        unshare = ("unshare", "--net", "--mount", *clocks, "--fork", "--kill-child")
        self._keeper = subprocess.Popen(
            [*DIE_WITH_ME, *unshare, "sh", "-c", KEEPER, str(hosts)], start_new_session=True
        )
        self.pid = self._wait_for_child()

    @property
    def prefix(self) -> tuple[str, ...]:
        """Words before a command that runs it in here, as the same process."""
        return ("nsenter", "--target", str(self.pid), "--net", "--mount", "--time", "--", *DIE_WITH_ME)

    def run(self, *command: str) -> str:
        """Runs a command in here. Returns its output. Raises AssertionError where it fails."""
        done = subprocess.run([*self.prefix, *command], capture_output=True, text=True, timeout=30, check=False)
        assert done.returncode == 0, f"{' '.join(command)}: {done.stdout}{done.stderr}"
        return done.stdout

    def close(self) -> None:
        """Ends the process that keeps it. Others that run in it have to be ended before."""
        self._keeper.kill()
        self._keeper.wait()

    @contextmanager
    def entered(self) -> Iterator[None]:
        """Has this thread open its sockets in here."""
        before = os.open("/proc/thread-self/ns/net", os.O_RDONLY)
        own = os.open(f"/proc/{self.pid}/ns/net", os.O_RDONLY)
        try:
            _set_network(own)
            yield
        finally:
            _set_network(before)
            os.close(own)
            os.close(before)

    def _wait_for_child(self) -> int:
        children = Path(f"/proc/{self._keeper.pid}/task/{self._keeper.pid}/children")
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline and self._keeper.poll() is None:
            for child in children.read_text().split():
                if Path(f"/proc/{child}/comm").read_text().strip() == "sleep":
                    return int(child)
            time.sleep(0.01)
        self.close()
        raise AssertionError("no namespaces could be made: this needs root, and the commands unshare, mount and ip")


def _set_network(descriptor: int) -> None:
    if ctypes.CDLL(None, use_errno=True).setns(descriptor, CLONE_NEWNET):
        raise OSError(ctypes.get_errno(), "setns")
