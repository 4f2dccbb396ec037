"""Images that are built and run, by `make test-images` as root: containers are part of no other test."""

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.deploy.chart.rendering import Chart
from tests.images.platform import GUARDED, PLAIN, Platform, played

TOOLS = os.environ.get("HEADRACE_DEPLOY_TOOLS", "")
collect_ignore_glob = [] if os.environ.get("HEADRACE_IMAGES") else ["test_*.py"]


def play(root: Path, values: dict[str, Any]) -> Iterator[Platform]:
    """The rendered chart with the built images, played."""
    folder = Path(tempfile.mkdtemp(prefix="headrace-images-"))
    chart = Chart(Path(TOOLS, "helm"), root / "deploy/helm/headrace")
    try:
        with played(chart, values, folder) as running:
            yield running
    finally:
        shutil.rmtree(folder)


@pytest.fixture(scope="module", params=[PLAIN, GUARDED], ids=["plain", "guarded"])
def platform(request: pytest.FixtureRequest, root: Path) -> Iterator[Platform]:
    yield from play(root, request.param)


@pytest.fixture
def doubled_platform(root: Path) -> Iterator[Platform]:
    """A platform that has each service twice."""
    yield from play(root, GUARDED)
