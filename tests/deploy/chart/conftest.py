"""Tests of the Helm chart, which `make test-deploy` runs: helm and the validators are not part of the project."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.deploy.chart.rendering import Chart
from tests.deploy.chart.validating import Validator

TOOLS = os.environ.get("HEADRACE_DEPLOY_TOOLS", "")
collect_ignore_glob = [] if TOOLS else ["test_*.py"]


@pytest.fixture(scope="session")
def chart(root: Path) -> Chart:
    return Chart(Path(TOOLS, "helm"), root / "deploy/helm/headrace")


@pytest.fixture(scope="session")
def validator() -> Iterator[Validator]:
    process = Validator(Path(TOOLS, "venv/bin/python"))
    yield process
    process.close()
