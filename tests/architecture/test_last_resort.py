"""No test holds up the suite for ever, whatever it does at its time limit."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ENDLESS = """
import threading
import pytest

@pytest.fixture
def endless():
    yield
    threading.Event().wait()

def test_that_never_ends(endless):
    threading.Event().wait()
"""
PLUGIN = (
    "import tests.last_resort as last_resort\nlast_resort.GRACE_SECONDS = 1\npytest_plugins = ['tests.last_resort']\n"
)


@pytest.mark.process
def test_a_test_that_its_time_limit_does_not_end_ends_its_process(tmp_path: Path, root: Path) -> None:
    (tmp_path / "test_endless.py").write_text(ENDLESS)
    (tmp_path / "conftest.py").write_text(PLUGIN)
    (tmp_path / "pytest.ini").write_text("[pytest]\ntimeout = 0.2\n")
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-p", "pytest_timeout", str(tmp_path)]
    environment = os.environ | {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    ended = subprocess.run(command, cwd=root, env=environment, capture_output=True, text=True, timeout=60, check=False)
    assert ended.returncode == 1
    assert "Timeout (0:00:01" in ended.stderr
    assert "in endless" in ended.stderr
