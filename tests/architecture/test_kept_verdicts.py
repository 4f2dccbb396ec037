"""A kept verdict saves a test, until something that the test reads is another."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.process, pytest.mark.slow]

CONFTEST = """
import pytest
from tests import emulated_record, kept_verdicts

pytest_plugins = ["tests.kept_verdicts"]
emulated_record.PARTS.clear()
emulated_record.PARTS["x"] = emulated_record.Part(("src",), "checks", ())
"""
TESTS = """
from pathlib import Path

import pytest


@pytest.mark.emulated
@pytest.mark.parametrize("number", range(4))
def test_it(number):
    with Path("ran").open("a") as file:
        file.write("x")
    assert number < int(Path("src/limit.h").read_text())
    if Path("changing").exists():
        Path("src/limit.h").write_text(" 4")


def test_another():
    pass
"""


@pytest.fixture
def suite(tmp_path: Path) -> Path:
    (tmp_path / "checks").mkdir()
    (tmp_path / "src").mkdir()
    (tmp_path / "conftest.py").write_text(CONFTEST)
    (tmp_path / "checks/test_x.py").write_text(TESTS)
    (tmp_path / "src/limit.h").write_text("4")
    (tmp_path / "constraints.txt").write_text("")
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers =\n    emulated: x\n")
    return tmp_path


def run(root: Path, suite: Path, *arguments: str) -> tuple[int, int, int]:
    """Returns how many marked tests ran, how many verdicts the run says it kept, and the code that it ended with."""
    ran = suite / "ran"
    ran.write_text("")
    code = f"import sys; sys.path.insert(0, {str(root)!r}); import pytest; sys.exit(pytest.main(sys.argv[1:]))"
    command = [sys.executable, "-c", code, "-q", "-p", "no:cacheprovider", "-p", "xdist", *arguments, "checks"]
    environment = {"PATH": "/usr/bin:/bin", "PYTHONPATH": str(root), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    done = subprocess.run(command, cwd=suite, env=environment, capture_output=True, text=True, timeout=120)
    said = re.search(r"(\d+) verdicts kept", done.stdout)
    return len(ran.read_text()), int(said[1]) if said else 0, done.returncode


@pytest.mark.parametrize("processes", [(), ("--numprocesses", "2")], ids=["one process", "two processes"])
def test_what_passed_is_not_repeated_until_its_inputs_change(
    root: Path, suite: Path, processes: tuple[str, ...]
) -> None:
    assert run(root, suite, *processes) == (4, 0, 0)
    assert run(root, suite, *processes) == (0, 4, 0)
    assert run(root, suite, *processes, "-m", "emulated") == (0, 4, 0), "none is left to run, which is a success"
    assert run(root, suite, *processes, "--no-kept-verdicts") == (4, 0, 0)
    (suite / "src/limit.h").write_text("4 ")
    assert run(root, suite, *processes) == (4, 0, 0)


def test_a_failure_is_not_kept(root: Path, suite: Path) -> None:
    (suite / "src/limit.h").write_text("3")
    assert run(root, suite) == (4, 0, 1)
    assert run(root, suite) == (1, 3, 1)
    (suite / "src/limit.h").write_text("4")
    assert run(root, suite) == (4, 0, 0)


def test_inputs_that_change_while_a_test_runs_are_not_those_of_its_verdict(root: Path, suite: Path) -> None:
    (suite / "changing").touch()
    assert run(root, suite) == (4, 0, 0)
    assert run(root, suite) == (4, 0, 0)
    assert run(root, suite) == (0, 4, 0)


def test_damaged_verdicts_say_nothing(root: Path, suite: Path) -> None:
    assert run(root, suite) == (4, 0, 0)
    (suite / "build/kept_verdicts.json").write_text('{"checks')
    assert run(root, suite) == (4, 0, 0)
