"""Runs the tests of this folder that need Triton's interpreter, in a process that has it."""

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

pytestmark = [
    pytest.mark.emulated,
    pytest.mark.slow,
    pytest.mark.process,
    pytest.mark.timeout(600),
    pytest.mark.skipif(find_spec("triton") is None, reason="no triton; to run it: Linux on x86_64 or aarch64"),
]
DEADLINE = 560


def test_kernels_in_the_interpreter(root: Path) -> None:
    environment = os.environ | {"TRITON_INTERPRET": "1"}
    for name in ("PYTEST_XDIST_WORKER", "PYTEST_ADDOPTS"):
        environment.pop(name, None)
    run = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(Path(__file__).parent)],
        cwd=root,
        env=environment,
        capture_output=True,
        text=True,
        timeout=DEADLINE,
        check=False,
    )
    assert run.returncode == 0, run.stdout[-8000:] + run.stderr[-2000:]
    assert " skipped" not in run.stdout.splitlines()[-1]
