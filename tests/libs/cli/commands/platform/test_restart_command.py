"""The arguments of a platform are read from the command line of its process."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from headrace.cli.commands.platform.restart_command import former_start, up_arguments
from headrace.errors import Unavailable


@pytest.mark.parametrize(
    ("words", "found"),
    [
        (["python", "-m", "headrace.cli", "up", "a=/x", "--replicas", "2"], ["a=/x", "--replicas", "2"]),
        (["/v/bin/python3", "/v/bin/headrace", "up"], []),
        (["/v/bin/python3", "/v/bin/headrace", "serve", "headrace"], ["headrace"]),
        (["python", "-P", "-m", "headrace.cli", "up", "--json", "--in-background"], ["--json", "--in-background"]),
    ],
)
def test_what_follows_up_is_taken(words: list[str], found: list[str]) -> None:
    assert up_arguments(words) == found


@pytest.mark.parametrize("words", [["python", "-m", "pytest"], ["headrace"], ["/v/bin/headrace", "chat"], []])
def test_another_program_is_refused(words: list[str]) -> None:
    with pytest.raises(Unavailable, match="not started with headrace up"):
        up_arguments(words)


def test_folder_and_environment_are_those_of_the_process(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("headrace.cli.commands.platform.restart_command.up_arguments", lambda words: words)
    command = [sys.executable, "-c", "print('running', flush=True); input()"]
    environment = {**os.environ, "HEADRACE_MODEL_FOLDER": "/models"}
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, cwd=tmp_path, env=environment) as process:
        try:
            # The kernel shows no command line in the midst of an exec, which Popen does not wait to the end of.
            assert process.stdout is not None
            assert process.stdout.readline() == b"running\n"
            start = former_start(process.pid)
        finally:
            process.communicate(b"\n")
    assert start.folder == tmp_path
    assert start.arguments == command
    assert start.environment["HEADRACE_MODEL_FOLDER"] == "/models"
    assert not start.was_in_background


def test_a_process_that_is_gone_is_said_so() -> None:
    with pytest.raises(Unavailable, match="cannot read how pid"):
        former_start(2**22 + 1)
