"""The wheel that images are made of holds everything that runs."""

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

pytest.importorskip("hatchling", reason="the build backend is not installed; to run it: make test")


pytestmark = pytest.mark.process
SOURCES = ("libs", "services", "pyproject.toml", "hatch_build.py", "README.md", "LICENSE", ".gitignore")
KERNELS = "headrace/engine/kernels/_kernels.so"
COMPILER = """#!/bin/sh
while [ "$1" != -o ]; do shift; done
: > "$2"
"""
"""Stands in for the compiler, which every installation runs anyway: half a minute, and its result is not looked at."""


@pytest.fixture(scope="module")
def names(root: Path, tmp_path_factory: pytest.TempPathFactory) -> set[str]:
    """The files of a wheel that is built now, from a copy: a build puts its library among the sources."""
    folder = tmp_path_factory.mktemp("wheel")
    ignored = shutil.ignore_patterns("__pycache__", Path(KERNELS).name)
    for name in SOURCES:
        if (root / name).is_dir():
            shutil.copytree(root / name, folder / name, ignore=ignored)
        else:
            shutil.copy(root / name, folder / name)
    compiler = folder / "compiler"
    compiler.write_text(COMPILER)
    compiler.chmod(0o755)
    command = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(folder / "dist")]
    environment = os.environ | {"CXX": str(compiler)}
    subprocess.run(command, cwd=folder, env=environment, capture_output=True, check=True)
    (wheel,) = (folder / "dist").glob("headrace-*.whl")
    return set(zipfile.ZipFile(wheel).namelist())


def test_the_kernels_are_in_it(names: set[str]) -> None:
    assert KERNELS in names


@pytest.mark.parametrize("service", ["gateway", "tokenizer", "scheduler", "cache", "worker"])
def test_every_service_is_in_it(names: set[str], service: str) -> None:
    assert {f"headrace/{service}/__main__.py", f"headrace/{service}/config.py"} <= names


def test_both_roots_are_merged_into_one_namespace(root: Path, names: set[str]) -> None:
    """Every source file of both, and no `__init__.py` over them, nor any file from elsewhere."""
    sources = {
        path.relative_to(root / top).as_posix()
        for top in ("libs", "services")
        for path in (root / top / "headrace").rglob("*.py")
    }
    assert sources <= names
    assert "headrace/__init__.py" not in names
    assert {name.partition("/")[0] for name in names if ".dist-info/" not in name} == {"headrace"}
    assert not any("__pycache__" in name for name in names)


def test_the_bundled_model_is_in_it(names: set[str]) -> None:
    """Weights, configuration and tokenizer: a fresh image serves without a download."""
    for name in ("config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json"):
        assert f"headrace/demo_model/checkpoint/{name}" in names


def test_the_console_is_in_it(root: Path, names: set[str]) -> None:
    """Every file that browsers get: there is no step that makes them."""
    folder = root / "services" / "headrace" / "gateway" / "console" / "static"
    files = {f"headrace/gateway/console/static/{path.name}" for path in folder.iterdir()}
    assert len(files) > 10
    assert files <= names


def test_the_generated_code_is_in_it(root: Path, names: set[str]) -> None:
    protos = {path.stem for path in (root / "protos" / "headrace" / "v1").glob("*.proto")}
    assert protos
    assert {f"headrace/v1/{proto}_pb2.py" for proto in protos} <= names


def test_it_is_typed(root: Path, names: set[str]) -> None:
    """Every package that is marked in the tree is marked in the wheel."""
    marks = {
        path.relative_to(root / top).as_posix()
        for top in ("libs", "services")
        for path in (root / top / "headrace").rglob("py.typed")
    }
    assert len(marks) > 10
    assert marks <= names
