"""Runs the tests of this folder that need Triton's interpreter, in a process that has it."""

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

pytestmark = [
    pytest.mark.slow,
    pytest.mark.process,
    pytest.mark.timeout(2500),
    pytest.mark.skipif(find_spec("triton") is None, reason="no triton; to run it: Linux on x86_64 or aarch64"),
]
DEADLINE = 2400
"""Seconds for all of them on a busy machine. They take a fifth of it alone."""
FOLDER = Path(__file__).parent
SERVICES = FOLDER / "test_five_services.py"


@pytest.mark.emulated
def test_kernels_in_the_interpreter(root: Path) -> None:
    run(root, str(FOLDER), f"--ignore={SERVICES}")


def test_five_services_with_kernels_in_the_interpreter(root: Path) -> None:
    """A test of `make test`: the code between the services and the kernels changes often."""
    run(root, str(SERVICES))


def run(root: Path, *arguments: str) -> None:
    environment = os.environ | {"TRITON_INTERPRET": "1"}
    for name in ("PYTEST_XDIST_WORKER", "PYTEST_ADDOPTS"):
        environment.pop(name, None)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"--timeout={DEADLINE}", *arguments],
        cwd=root,
        env=environment,
        capture_output=True,
        text=True,
        timeout=DEADLINE,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-8000:] + done.stderr[-2000:]
    assert " skipped" not in done.stdout.splitlines()[-1]
