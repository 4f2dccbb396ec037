"""A build of the portable kernels with sanitizers runs without a report, and reports what is out of bounds. `make
sanitize` tries all instruction sets and threads."""

import subprocess
import sys
from pathlib import Path

import pytest
from tests.libs.engine.kernels.sanitizers.__main__ import TESTS
from tests.libs.engine.kernels.sanitizers.sanitizer import ADDRESS

pytest.importorskip("hatchling", reason="the build backend is not installed; to run it: make test-emulated")
NO_SANITIZER = "the compiler has no AddressSanitizer; to run it: install g++ with libasan and libubsan"
pytestmark = [
    pytest.mark.skipif(bool(ADDRESS.why_not()), reason=NO_SANITIZER),
    pytest.mark.emulated,
    pytest.mark.slow,
    pytest.mark.timeout(1200),
]

NORMALIZE = """
import ctypes
import numpy as np
from headrace.engine.kernels.context import KernelContext
from headrace.engine.memory.aligned import address
from headrace.engine.kernels.structures import Norm

inputs, weight = np.ones({length}, np.float32), np.ones(40, np.float32)
outputs = np.empty((3, 40), np.float32)
KernelContext(1).normalize(Norm(address(weight), None, 40, 0.0), address(inputs), address(outputs), 3)
assert (outputs == 1).all()
"""

ROUND = """
import numpy as np
from headrace.engine.kernels.library import Instructions
from headrace.engine.kernels.packed_weight import pack_rounded
from headrace.engine.kernels.storage import Storage

weight = np.ones((1, 32), np.float32)
weight[0, :2] = np.inf, -np.inf
pack_rounded((weight,), Storage.F32, Storage.U4, 32, np.arange(1), Instructions.PORTABLE)
"""


@pytest.fixture(scope="module")
def library(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("kernels") / "_kernels.so"
    ADDRESS.build(root, path, portable_only=True)
    return path


def run(library: Path, *arguments: str) -> "subprocess.CompletedProcess[str]":
    command, environment = [sys.executable, *arguments], ADDRESS.environment(library)
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=600)


def test_what_make_sanitize_runs_is_there(root: Path) -> None:
    assert [path for path in TESTS if not (root / path).is_file()] == []


def test_the_portable_kernels_run_without_a_report(root: Path, library: Path) -> None:
    tests = root / "tests/libs/engine/kernels/test_checked_ids.py"
    plugin = ("-p", "tests.libs.engine.kernels.sanitizers.instruction_limit", "--instructions", "PORTABLE")
    done = run(library, "-m", "pytest", "-q", "-s", "-p", "no:cacheprovider", f"--rootdir={root}", *plugin, str(tests))
    assert done.returncode == 0, done.stdout + done.stderr
    assert "passed" in done.stdout
    assert "skipped" not in done.stdout.replace("nothing was skipped", "")


@pytest.mark.parametrize(("length", "report"), [(120, ""), (119, "heap-buffer-overflow")])
def test_a_read_beyond_the_inputs_is_reported(library: Path, length: int, report: str) -> None:
    done = run(library, "-c", NORMALIZE.format(length=length))
    assert bool(done.returncode) == bool(report), done.stderr
    assert report in done.stderr


def test_infinite_weights_are_rounded_without_a_report(library: Path) -> None:
    done = run(library, "-c", ROUND)
    assert done.returncode == 0, done.stderr
