"""The Python that `make` installs with: python3, unless the system's own runs Python code a quarter faster."""

import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = "deploy/local/choose_python.sh"


def choose(root: Path, one: str, other: str) -> str:
    done = subprocess.run([root / SCRIPT, one, other], capture_output=True, text=True, timeout=60, check=True)
    return done.stdout.strip()


def make_python(path: Path, microseconds: int | None) -> str:
    """Makes a program that takes the measuring loop as Python does. None: it cannot install Headrace."""
    path.write_text(f"#!/bin/sh\ncat > /dev/null\n{'exit 1' if microseconds is None else f'echo {microseconds}'}\n")
    path.chmod(0o755)
    return str(path)


@pytest.mark.parametrize(
    ("one", "other", "chosen"),
    [
        (1000, 790, "other"),
        (1000, 810, "one"),
        (1000, 2000, "one"),
        (None, 1000, "other"),
        (1000, None, "one"),
        (None, None, "one"),
    ],
)
def test_the_quicker_is_chosen(root: Path, tmp_path: Path, one: int | None, other: int | None, chosen: str) -> None:
    pythons = {"one": make_python(tmp_path / "one", one), "other": make_python(tmp_path / "other", other)}
    assert choose(root, pythons["one"], pythons["other"]) == pythons[chosen]


def test_a_python_that_runs_headrace_is_measured(root: Path, tmp_path: Path) -> None:
    slow = make_python(tmp_path / "slow", 1_000_000_000)
    assert choose(root, slow, sys.executable) == sys.executable
    assert choose(root, sys.executable, slow) == sys.executable


def test_a_missing_python_is_passed_over(root: Path, tmp_path: Path) -> None:
    assert choose(root, sys.executable, str(tmp_path / "none")) == sys.executable
    assert choose(root, str(tmp_path / "none"), sys.executable) == sys.executable


def test_what_a_python_prints_when_it_starts_is_no_time(root: Path, tmp_path: Path) -> None:
    chatty = tmp_path / "chatty"
    chatty.write_text("#!/bin/sh\ncat > /dev/null\necho welcome to 3\necho 1000000000\n")
    chatty.chmod(0o755)
    assert choose(root, str(chatty), sys.executable) == sys.executable
    assert choose(root, sys.executable, str(chatty)) == sys.executable
