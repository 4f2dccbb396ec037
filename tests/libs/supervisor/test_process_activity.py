"""A process that computes is busy, also one that would and gets no core; one that sleeps or is stopped is not."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest

from headrace.supervisor.process_activity import ProcessActivity

pytestmark = pytest.mark.process
SECONDS = 1.5
SLEEPS = "import time\nprint('here', flush=True)\ntime.sleep(600)"
COMPUTES = "print('here', flush=True)\nwhile True: pass"
COMPUTES_BESIDE = """
import threading, time
def compute():
    while True: pass
threading.Thread(target=compute, daemon=True).start()
print("here", flush=True)
time.sleep(600)
"""


@pytest.fixture
def processes() -> "Iterator[list[subprocess.Popen[str]]]":
    made: list[subprocess.Popen[str]] = []
    yield made
    for process in made:
        process.kill()
        process.communicate()


def start(processes: "list[subprocess.Popen[str]]", script: str) -> int:
    process = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
    processes.append(process)
    assert process.stdout is not None
    assert process.stdout.readline() == "here\n"
    return process.pid


def is_busy(pid: int) -> bool:
    activity = ProcessActivity(pid)
    began = time.monotonic()
    time.sleep(SECONDS)
    return activity.is_busy(time.monotonic() - began)


def test_who_sleeps_is_not_busy(processes: "list[subprocess.Popen[str]]") -> None:
    assert not is_busy(start(processes, SLEEPS))


@pytest.mark.parametrize("script", [COMPUTES, COMPUTES_BESIDE])
def test_who_computes_is_busy_until_stopped(processes: "list[subprocess.Popen[str]]", script: str) -> None:
    pid = start(processes, script)
    assert is_busy(pid)
    os.kill(pid, signal.SIGSTOP)
    assert not is_busy(pid)


def test_who_is_gone_is_not_busy(processes: "list[subprocess.Popen[str]]") -> None:
    pid = start(processes, SLEEPS)
    activity = ProcessActivity(pid)
    processes[0].kill()
    processes[0].wait()
    assert not activity.is_busy(1.0)


@pytest.mark.skipif(
    sys.platform != "linux", reason="only Linux counts how long a thread waits for a core; to run it: Linux"
)
def test_who_gets_no_core_is_busy(processes: "list[subprocess.Popen[str]]") -> None:
    """The main thread sleeps, and the other one gets next to nothing beside a process of a better class."""
    starved, greedy = start(processes, COMPUTES_BESIDE), start(processes, COMPUTES)
    core = {min(os.sched_getaffinity(0))}
    for task in os.listdir(f"/proc/{starved}/task"):
        os.sched_setaffinity(int(task), core)
        os.sched_setscheduler(int(task), os.SCHED_IDLE, os.sched_param(0))
    os.sched_setaffinity(greedy, core)
    assert is_busy(starved)
