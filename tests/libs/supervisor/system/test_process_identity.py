"""A signal reaches the process that it is meant for, and no other that has its pid."""

import os
import signal
import subprocess
import sys

import pytest

from headrace.supervisor.system.process_identity import ProcessIdentity

pytestmark = pytest.mark.process
SLEEPING = [sys.executable, "-c", "import time; time.sleep(60)"]


def test_a_process_is_known_until_it_ends() -> None:
    process = subprocess.Popen(SLEEPING)
    try:
        identity = ProcessIdentity.of(process.pid)
        assert identity is not None
        assert identity.is_alive
        assert identity == ProcessIdentity.of(process.pid)
        assert identity.send(signal.SIGTERM)
        # Not yet asked for by its parent, it is a zombie: gone all the same.
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        assert not identity.is_alive
        assert not identity.send(signal.SIGTERM)
    finally:
        process.kill()
        process.wait(10)
    assert ProcessIdentity.of(process.pid) is None


def test_another_process_with_its_pid_gets_no_signal() -> None:
    process = subprocess.Popen(SLEEPING)
    try:
        former = ProcessIdentity(process.pid, "1")
        assert not former.is_alive
        assert not former.send(signal.SIGKILL)
        assert process.poll() is None
    finally:
        process.kill()
        process.wait(10)


def test_a_pid_without_a_process_has_no_identity() -> None:
    assert ProcessIdentity.of(2**22 + 1) is None
    assert not ProcessIdentity(2**22 + 1, "5").send(signal.SIGTERM)
