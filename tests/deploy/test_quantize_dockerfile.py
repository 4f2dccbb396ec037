"""The image for quantizing by other packages, and the extras that name them, agree with what the command installs."""

import re
import tomllib
from pathlib import Path

import pytest

from headrace.quantization.backends.backend_environment import BACKENDS

BUILD_TOOLS = {"setuptools>=77.0.3", "wheel"}


@pytest.mark.parametrize("name", BACKENDS)
def test_extras_are_what_the_command_installs(root: Path, name: str) -> None:
    extras = tomllib.loads((root / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    backend = BACKENDS[name]
    assert set(extras[f"backend-{name}"]) == {*backend.requirements, *backend.built_requirements} - BUILD_TOOLS
    assert not any(f"backend-{name}" in requirement for extra in extras.values() for requirement in extra)


def test_the_image_makes_the_environment_that_it_uses(root: Path) -> None:
    text = (root / "deploy/docker/quantize.Dockerfile").read_text()
    found = re.search(r"^ARG BACKEND=(\w+)$", text, re.MULTILINE)
    assert found is not None
    assert found[1] in BACKENDS
    assert 'python -m headrace.quantization.backends.backend_environment "${BACKEND}"' in text
    assert "XDG_DATA_HOME=/opt" in text
    for source in re.findall(r"^COPY (?!--)(.*) \S+$", text, re.MULTILINE):
        assert all((root / path).exists() for path in source.split())
