"""`headrace picker` becomes the picker's process, with its flags as settings."""

import sys
from collections.abc import Sequence

import pytest
from cyclopts import App, Parameter

from headrace.cli.commands.picker import picker


def command_of(monkeypatch: pytest.MonkeyPatch, arguments: Sequence[str]) -> list[str]:
    """Arguments of the process that the command turns into."""
    found: list[list[str]] = []
    monkeypatch.setattr("os.execv", lambda _program, command: found.append(command))
    app = App(default_parameter=Parameter(negative_iterable=()), result_action="return_value")
    app.default(picker)
    app(arguments)
    (command,) = found
    assert command[:4] == [sys.executable, "-P", "-m", "headrace.scheduler.picker"]
    return command[4:]


def test_flags_become_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    flags = ["--endpoint", "10.0.0.1:8000", "--endpoint", "10.0.0.2:8000", "--listen", "0.0.0.0:1", "--metrics-port=9"]
    assert command_of(monkeypatch, [*flags, "--set", "queue_seconds=2", "--set", "objectives=a=batch"]) == [
        "--endpoints=10.0.0.1:8000,10.0.0.2:8000",
        "--listen-address=0.0.0.0:1",
        "--metrics-port=9",
        "--queue-seconds=2",
        "--objectives=a=batch",
    ]


def test_what_is_not_given_is_left_to_environment_and_file(monkeypatch: pytest.MonkeyPatch) -> None:
    assert command_of(monkeypatch, []) == []
    assert command_of(monkeypatch, ["--service", "vllm:8000", "--config", "c.toml"]) == [
        "--service=vllm:8000",
        "--config=c.toml",
    ]


def test_a_setting_without_a_value_is_refused(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture) -> None:
    with pytest.raises(SystemExit) as exit_:
        command_of(monkeypatch, ["--set", "queue_seconds"])
    assert exit_.value.code == 2
    assert "must be NAME=VALUE" in capsys.readouterr().err
