"""A plan is made before anything is installed, so it needs no torch."""

import subprocess
import sys

import pytest

pytestmark = pytest.mark.process
SCRIPT = """
import sys
sys.modules["torch"] = None
from headrace.cli.__main__ import main
main()
"""


def plan(*arguments: str) -> "subprocess.CompletedProcess[str]":
    """Runs the command in a process that has no torch."""
    command = [sys.executable, "-c", SCRIPT, "plan", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)


def test_devices_are_compared_without_torch() -> None:
    done = plan("llama-3.3-70b", "--on", "a100-80g", "--context", "4096")
    assert done.returncode == 0, done.stderr
    assert "a100-80g" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "named"),
    [(["no-such-model"], "no-such-model"), (["llama-3.3-70b", "--on", "zork"], "zork")],
)
def test_a_mistake_is_named_and_not_torch(arguments: list[str], named: str) -> None:
    done = plan(*arguments)
    assert done.returncode != 0
    assert named in done.stderr
    assert "torch" not in done.stderr


def test_measuring_says_that_it_needs_torch() -> None:
    done = plan("headrace-demo", "--quality-floor", "0.9", "--measure")
    assert done.returncode != 0
    assert "torch not installed" in done.stderr
