"""Logs of a platform, as the command shows them."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from tests.e2e.command_line import headrace_here

from headrace.supervisor.state import StateFolder


def written(age: float, message: str, level: str = "info", **facts: str) -> str:
    at = datetime.now(UTC) - timedelta(seconds=age)
    return (
        json.dumps({"time": at.isoformat(timespec="milliseconds"), "level": level, "message": message} | facts) + "\n"
    )


@pytest.fixture
def state(tmp_path: Path) -> list[str]:
    folder = tmp_path / "logs"
    folder.mkdir()
    (folder / "nats.log").write_text("  _ __ __\n[1] 2026/11/28 03:00:00.000000 [INF] Starting nats-server\n")
    many = "".join(written(500 - number, f"step {number}") for number in range(30))
    (folder / "worker-0.log").write_text(many + written(60, "hot", "warning"))
    (folder / "gateway.log").write_text(written(400, "asked", request_id="abc") + written(30, "done", request_id="def"))
    return ["--state-dir", str(tmp_path)]


def test_nats_is_shown_when_it_is_asked_for(state: list[str]) -> None:
    assert "nats" not in headrace_here("logs", *state).stdout
    for asked in (["nats"], ["--service", "nats"], ["--level", "debug"]):
        assert "Starting nats-server" in headrace_here("logs", *asked, *state).stdout


def test_twenty_lines_of_each_unless_all_of_some_are_wanted(state: list[str]) -> None:
    assert len(headrace_here("logs", *state).stdout.splitlines()) == 22
    assert len(headrace_here("logs", "--since", "1h", *state).stdout.splitlines()) == 33
    assert len(headrace_here("logs", "--since", "1h", "--lines", "1", *state).stdout.splitlines()) == 2


def test_lines_are_chosen(state: list[str]) -> None:
    (warning,) = headrace_here("logs", "--level", "warning", *state).stdout.splitlines()
    assert warning.endswith("worker-0 warning: hot")
    (line,) = headrace_here("logs", "--request", "chatcmpl-abc", "--json", *state).stdout.splitlines()
    assert json.loads(line)["message"] == "asked"
    assert headrace_here("logs", "--since", "45s", *state).stdout.splitlines()[0].endswith("done request_id=def")
    refused = headrace_here("logs", "--since", "noon", *state)
    assert refused.returncode == 1
    assert "--since is 'noon'" in refused.stderr


def test_logs_of_a_platform_that_has_ended_say_so(state: list[str], tmp_path: Path) -> None:
    assert "These lines are from one that has ended" in headrace_here("logs", *state).stderr
    with StateFolder(tmp_path):
        assert headrace_here("logs", *state).stderr == ""
