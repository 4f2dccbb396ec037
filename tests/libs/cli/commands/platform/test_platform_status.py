"""Status says whether a platform runs, in words and in its exit code."""

import json
import os
from pathlib import Path

import pytest
from tests.e2e.command_line import headrace_here

from headrace.cli.commands.platform.platform_status import health_of
from headrace.cli.duration import duration_text
from headrace.supervisor.state import StateFolder


@pytest.mark.parametrize(
    ("seconds", "text"), [(-1, "0 s"), (59.9, "59 s"), (61, "1 min"), (7500, "2 h 5 min"), (187_000, "2 d 3 h")]
)
def test_times_are_said_as_people_say_them(seconds: float, text: str) -> None:
    assert duration_text(seconds) == text


def test_no_platform_is_3(tmp_path: Path) -> None:
    done = headrace_here("status", "--state-dir", str(tmp_path))
    assert done.returncode == 3
    assert "no platform runs" in done.stdout
    assert json.loads(headrace_here("status", "--json", "--state-dir", str(tmp_path)).stdout)["running"] is False


def test_one_that_was_killed_is_3_and_says_so(tmp_path: Path) -> None:
    (tmp_path / "lock").touch()
    (tmp_path / "platform.json").write_text('{"pid": 4711}')
    done = headrace_here("status", "--state-dir", str(tmp_path))
    assert done.returncode == 3
    assert "pid 4711) was killed" in done.stdout
    assert f"headrace stop --state-dir {tmp_path}" in done.stdout


def test_one_that_just_starts_is_0(tmp_path: Path) -> None:
    with StateFolder(tmp_path):
        done = headrace_here("status", "--state-dir", str(tmp_path))
    assert done.returncode == 0
    assert "just starting" in done.stdout


def test_one_that_does_not_answer_is_shown_all_the_same(tmp_path: Path) -> None:
    """The port is one at which nothing listens."""
    service = {"name": "gateway", "state": "ready", "pid": 1, "restarts": 2, "started": 5.0, "address": "127.0.0.1:9"}
    described = {"http": "http://127.0.0.1:9", "grpc": "127.0.0.1:9", "state": "ready", "models": ["m"]}
    with StateFolder(tmp_path) as state:
        state.write(described | {"pid": os.getpid(), "started": 5.0, "services": [service]})
        done = headrace_here("status", "--state-dir", str(tmp_path))
    assert done.returncode == 0
    assert "not known: no platform answers at http://127.0.0.1:9" in done.stdout
    lines = [line for line in done.stdout.splitlines()[1:] if str(tmp_path) not in line]
    assert all(len(line) <= 80 for line in lines)
    assert health_of(described | {"state": "stopping"}) == "stopping"


def test_a_stop_without_a_platform_is_no_failure(tmp_path: Path) -> None:
    done = headrace_here("stop", "--state-dir", str(tmp_path))
    assert done.returncode == 0
    assert "nothing to stop" in done.stdout
    assert json.loads(headrace_here("down", "--json", "--state-dir", str(tmp_path)).stdout) == {
        "outcome": "not running"
    }
    assert headrace_here("stop", "--timeout", "0", "--state-dir", str(tmp_path)).returncode == 1
    restarted = headrace_here("restart", "--state-dir", str(tmp_path))
    assert restarted.returncode == 1
    assert "no platform runs" in restarted.stderr
