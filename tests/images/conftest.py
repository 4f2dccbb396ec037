"""Images that are built and run, by `make test-images` as root: containers are part of no other test."""

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.deploy.chart.rendering import Chart
from tests.images.platform import GUARDED, PLAIN, Platform, played

TOOLS = os.environ.get("HEADRACE_DEPLOY_TOOLS", "")
collect_ignore_glob = [] if os.environ.get("HEADRACE_IMAGES") else ["test_*.py"]


@pytest.fixture(scope="session", params=[PLAIN, GUARDED], ids=["plain", "guarded"])
def platform(request: pytest.FixtureRequest, root: Path) -> Iterator[Platform]:
    """The rendered chart with the built images, played."""
    folder = Path(tempfile.mkdtemp(prefix="headrace-images-"))
    chart = Chart(Path(TOOLS, "helm"), root / "deploy/helm/headrace")
    try:
        with played(chart, request.param, folder) as running:
            yield running
    finally:
        shutil.rmtree(folder)
