"""Platforms that tests share. Each is started when first needed, and stopped, with a check, after the last of them."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.harness.running_platform import RunningPlatform, running_platform


@pytest.fixture(scope="package")
def demo_platform(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningPlatform]:
    """The bundled model, one worker, and as many of each service as by default. Not to be harmed."""
    with running_platform(tmp_path_factory.mktemp("demo"), counts=()) as platform:
        yield platform


@pytest.fixture(scope="package")
def embedding_platform(tmp_path_factory: pytest.TempPathFactory, minilm: Path) -> Iterator[RunningPlatform]:
    """A real encoder and the bundled model, one worker each. Not to be harmed."""
    with running_platform(tmp_path_factory.mktemp("embeddings"), [f"minilm={minilm}", "headrace-demo"]) as platform:
        yield platform
