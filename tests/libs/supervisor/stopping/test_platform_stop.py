"""A stop ends a platform whatever it does, and nothing else."""

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from headrace.errors import ConfigError
from headrace.supervisor.state import StateFolder, holder_of, last_platform
from headrace.supervisor.stopping import platform_stop
from headrace.supervisor.stopping.platform_stop import awaited, end_leftovers, stop_platform
from headrace.supervisor.stopping.running_supervisor import RunningSupervisor
from headrace.supervisor.system.process_identity import ProcessIdentity

SUPERVISOR = """
import json, os, signal, subprocess, sys, time
from pathlib import Path
from headrace.supervisor.state import StateFolder
mode, folder = sys.argv[1], Path(sys.argv[2])
if mode == "deaf":
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
elif mode == "slow":
    asked = []
    signal.signal(signal.SIGTERM, lambda *_: asked.append(1) or (len(asked) > 1 and sys.exit(0)))
else:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
with StateFolder(folder) as state:
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    state.write({"pid": os.getpid(), "state": "stopping", "services": [
        {"name": "gateway", "state": "ready", "pid": child.pid}]})
    print(child.pid, flush=True)
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        time.sleep(0.05)
"""


@contextmanager
def supervisor(mode: str, folder: Path) -> Iterator[tuple[RunningSupervisor, ProcessIdentity]]:
    """Starts what holds a state folder as a supervisor does, and gives it with its child."""
    process = subprocess.Popen([sys.executable, "-c", SUPERVISOR, mode, str(folder)], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        with process.stdout as lines:
            child = ProcessIdentity.of(int(lines.readline()))
        found = RunningSupervisor.find(folder)
        assert found is not None
        assert child is not None
        yield found, child
    finally:
        process.kill()
        process.wait(10)


@pytest.mark.process
@pytest.mark.parametrize(("mode", "patience", "how"), [("good", 10.0, "stopped"), ("slow", 0.3, "killed")])
def test_it_gets_time_and_then_a_second_signal(tmp_path: Path, mode: str, patience: float, how: str) -> None:
    said: list[str] = []
    with supervisor(mode, tmp_path) as (found, child):
        assert stop_platform(found, patience, said.append) == how
        assert not found.identity.is_alive
        assert not child.is_alive
    assert holder_of(tmp_path) is None
    assert last_platform(tmp_path) == {}
    assert any("at once" in text for text in said) == (how == "killed")


@pytest.mark.process
@pytest.mark.slow
def test_one_that_does_not_react_is_killed_with_its_services(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform_stop, "HARDER_SECONDS", 2.0)
    said: list[str] = []
    with supervisor("deaf", tmp_path) as (found, child):
        assert stop_platform(found, 1.5, said.append) == "killed"
        assert not found.identity.is_alive
        assert not child.is_alive
    assert last_platform(tmp_path) == {}
    assert said[0] == "gateway: running requests may finish"
    assert "does not react" in said[-1]


@pytest.mark.process
def test_services_that_outlive_their_supervisor_are_ended_and_others_are_not(tmp_path: Path) -> None:
    left, other = (subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"]) for _ in range(2))
    try:
        identity = ProcessIdentity.of(left.pid)
        assert identity is not None
        services = [
            {"name": "worker-0", "pid": left.pid, "birth": identity.birth},
            {"name": "cache", "pid": other.pid, "birth": "1"},
            {"name": "gateway", "pid": None, "birth": ""},
        ]
        with StateFolder(tmp_path):
            pass
        (tmp_path / "platform.json").write_text(json.dumps({"pid": 1, "services": services}))
        assert end_leftovers(tmp_path, lambda _: None)
        assert left.wait(10) == -9
        assert other.poll() is None
        assert not end_leftovers(tmp_path, lambda _: None)
    finally:
        for process in (left, other):
            process.kill()
            process.wait(10)


def test_a_platform_of_another_machine_is_left_alone(tmp_path: Path) -> None:
    """Its lock is held, as one on a shared disk is, by a pid that means something else here."""
    with StateFolder(tmp_path):
        (tmp_path / "lock").write_text('{"pid": 1, "birth": "none of this machine"}')
        with pytest.raises(ConfigError, match="another machine"):
            RunningSupervisor.find(tmp_path)


def test_it_says_what_is_waited_for() -> None:
    services = [{"name": name, "state": "ready"} for name in ("gateway", "gateway-1", "worker-0")]
    described = {"state": "stopping", "services": services}
    assert awaited(described) == "gateway and gateway-1: running requests may finish"
    services[0]["state"] = services[1]["state"] = "stopped"
    assert awaited(described) == "worker-0"
    assert awaited({"state": "ready", "services": services}) == ""
    assert awaited({}) == ""
