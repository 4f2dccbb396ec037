"""Forks of the fork server are children of the supervisor like programs, and outlive the fork server."""

import json
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from tests.harness.ended import wait_ended
from tests.libs.supervisor.spawning.supervisor_process import SupervisorProcess

pytestmark = [pytest.mark.process, pytest.mark.timeout(90)]
SECONDS = 30.0


@pytest.fixture
def supervisor(tmp_path: Path) -> Iterator[SupervisorProcess]:
    started = SupervisorProcess(tmp_path)
    try:
        yield started
    finally:
        started.kill()


def facts(supervisor: SupervisorProcess, mode: str) -> dict[str, Any]:
    """Waits for what a process tells of itself."""
    path, deadline = supervisor.folder / f"{mode}.json", time.monotonic() + SECONDS
    while not path.exists():
        assert time.monotonic() < deadline
        time.sleep(0.01)
    return dict(json.loads(path.read_text()))


def test_a_fork_is_a_child_with_a_session_variables_descriptors_and_a_title(supervisor: SupervisorProcess) -> None:
    pid = supervisor.ask("spawn", "leave")
    assert supervisor.ask("wait", pid) == 0
    told = facts(supervisor, "leave")
    assert told["imported"], "it is a fork"
    assert (told["parent"], told["session"], told["secret"]) == (supervisor.pid, pid, "s")
    assert told["inherited"] == (supervisor.folder / "inherited").stat().st_ino
    assert told["arguments"][0] == "leave"
    assert told["title"].startswith("headrace told leave")


def test_exit_codes_and_logs_are_those_of_a_program(supervisor: SupervisorProcess) -> None:
    assert supervisor.ask("wait", supervisor.ask("spawn", "refuse")) == 78
    assert (supervisor.folder / "refuse.log").read_text() == "a line\nthe reason\n"
    assert supervisor.ask("wait", supervisor.ask("spawn", "raise")) == 1
    assert "ValueError: a fault" in (supervisor.folder / "raise.log").read_text()
    pid = supervisor.ask("spawn", "sleep")
    supervisor.ask("terminate", pid)
    assert supervisor.ask("wait", pid) == -signal.SIGTERM


def test_without_a_fork_server_a_program_is_started_and_what_was_forked_runs_on(supervisor: SupervisorProcess) -> None:
    forked = supervisor.ask("spawn", "sleep")
    assert facts(supervisor, "sleep")["imported"]
    supervisor.ask("end-server")
    program = supervisor.ask("spawn", "leave")
    assert supervisor.ask("wait", program) == 0
    assert not facts(supervisor, "leave")["imported"]
    assert psutil.Process(forked).status() != psutil.STATUS_ZOMBIE


def test_nothing_outlives_a_killed_supervisor(supervisor: SupervisorProcess) -> None:
    supervisor.ask("spawn", "sleep")
    facts(supervisor, "sleep")
    started = psutil.Process(supervisor.pid).children(recursive=True)
    assert len(started) == 2, "the fork server and the fork"
    supervisor.kill()
    assert not wait_ended(started, SECONDS)


def test_orphans_of_a_fork_are_reaped(supervisor: SupervisorProcess) -> None:
    assert supervisor.ask("wait", supervisor.ask("spawn", "orphan")) == 0
    deadline = time.monotonic() + SECONDS
    while len(psutil.Process(supervisor.pid).children()) > 1:
        assert time.monotonic() < deadline, psutil.Process(supervisor.pid).children()
        time.sleep(0.01)
