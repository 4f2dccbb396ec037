"""Platforms whose workers run vLLM: only where `make test-vllm` names a Python that has it."""

import os
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path

import pytest
from tests.harness.running_platform import RunningPlatform, running_platform

import headrace.demo_model

PYTHON = "HEADRACE_VLLM_PYTHON"
START_SECONDS = 400.0
SETTINGS = """[worker]
max_running_count = 64
kv_cache_bytes = 1073741824
# Without compiling, so that a worker starts in half a minute; in fp32, so that no batch changes a greedy text.
vllm_arguments = {dtype = "float32", enforce_eager = true}
"""
CHECKPOINT = Path(headrace.demo_model.__file__).parent / "checkpoint"

collect_ignore_glob = [] if PYTHON in os.environ else ["test_*.py"]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.process)
            item.add_marker(pytest.mark.timeout(600))


def platform_on_vllm(folder: Path, *models: str) -> AbstractContextManager[RunningPlatform]:
    """Starts a platform whose workers vLLM computes for."""
    config = folder / "headrace.toml"
    config.write_text(SETTINGS)
    options = ["--engine", "vllm", "--worker-python", os.environ[PYTHON], "--config", str(config)]
    return running_platform(folder / "state", [*options, *models], START_SECONDS)


@pytest.fixture(scope="module")
def two_workers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningPlatform]:
    """The bundled model, twice."""
    folder = tmp_path_factory.mktemp("vllm")
    with platform_on_vllm(folder, "--replicas", "2", f"headrace-demo={CHECKPOINT}") as platform:
        yield platform


@pytest.fixture(scope="module")
def encoders(
    tmp_path_factory: pytest.TempPathFactory, minilm: Path
) -> Iterator[tuple[RunningPlatform, RunningPlatform]]:
    """A real encoder, run by vLLM and by our own engine."""
    with (
        platform_on_vllm(tmp_path_factory.mktemp("theirs"), f"minilm={minilm}") as theirs,
        running_platform(tmp_path_factory.mktemp("ours"), [f"minilm={minilm}"]) as ours,
    ):
        yield theirs, ours
