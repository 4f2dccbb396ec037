"""The wheel that images are made of holds everything that runs. It works on another machine: installed into an
environment without sources, compiler or torch, it serves."""

import json
import os
import platform
import shutil
import signal
import subprocess
import sys
import sysconfig
import venv
import zipfile
from pathlib import Path

import httpx2
import pytest
from tests.libs.engine.needed_kernels import needs_kernels

from headrace.engine.kernels.library import PATH

pytest.importorskip("hatchling", reason="the build backend is not installed; to run it: make test")


pytestmark = pytest.mark.process
SOURCES = ("libs", "services", "pyproject.toml", "hatch_build.py", "README.md", "LICENSE", ".gitignore")
KERNELS = "headrace/engine/kernels/_kernels.so"
COMPILER = """#!/bin/sh
while [ "$1" != -o ]; do shift; done
cp "{library}" "$2" || : > "$2"
"""
"""Stands in for the compiler, which every installation runs anyway: gives the library that it compiled, if any."""


@pytest.fixture(scope="module")
def wheel(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A wheel that is built now, from a copy: a build puts its library among the sources."""
    folder = tmp_path_factory.mktemp("wheel")
    ignored = shutil.ignore_patterns("__pycache__", Path(KERNELS).name)
    for name in SOURCES:
        if (root / name).is_dir():
            shutil.copytree(root / name, folder / name, ignore=ignored)
        else:
            shutil.copy(root / name, folder / name)
    compiler = folder / "compiler"
    compiler.write_text(COMPILER.format(library=PATH))
    compiler.chmod(0o755)
    command = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(folder / "dist")]
    environment = os.environ | {"CXX": str(compiler)}
    subprocess.run(command, cwd=folder, env=environment, capture_output=True, check=True)
    (built,) = (folder / "dist").glob("headrace-*.whl")
    return built


@pytest.fixture(scope="module")
def names(wheel: Path) -> set[str]:
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


@pytest.fixture(scope="module")
def environment(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment with the wheel, and with links to the packages that it needs, of which torch is none."""
    folder = tmp_path_factory.mktemp("environment")
    venv.create(folder, with_pip=False)
    packages = folder / "packages"
    packages.mkdir()
    for entry in Path(sysconfig.get_path("purelib")).iterdir():
        if not entry.name.startswith(("headrace", "_editable", "torch", "functorch")) and entry.suffix != ".pth":
            (packages / entry.name).symlink_to(entry)
    python = folder / "bin" / "python"
    command = [sys.executable, "-m", "pip", "--python", str(python), "install", "--no-deps", "--no-index", str(wheel)]
    subprocess.run(command, capture_output=True, check=True)
    (site,) = (folder / "lib").glob("python*/site-packages")
    (site / "packages.pth").write_text(f"{packages}\n")
    return folder


@needs_kernels
@pytest.mark.skipif(platform.system() != "Linux", reason="only Linux has tags by glibc; to run it: use Linux")
def test_the_tag_names_processor_and_glibc(wheel: Path) -> None:
    assert wheel.name.endswith(f"_{platform.machine()}.whl")
    assert "-py3-none-manylinux_2_" in wheel.name


@needs_kernels
@pytest.mark.slow
def test_it_serves_the_bundled_model_without_torch(environment: Path, tmp_path: Path) -> None:
    bin_folder = environment / "bin"
    path = f"{bin_folder}{os.pathsep}{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    settings = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"} | {"PATH": path}
    torch = subprocess.run(
        [bin_folder / "python", "-c", "import torch"], env=settings, capture_output=True, check=False
    )
    assert torch.returncode != 0
    ports = ["--http-port", "0", "--grpc-port", "0"]
    command = [str(bin_folder / "headrace"), "up", "--json", *ports, "--state-dir", str(tmp_path)]
    process = subprocess.Popen(command, env=settings, cwd=tmp_path, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        with process.stdout as lines:
            ready = next(event for event in map(json.loads, lines) if event["event"] == "ready")
            body = {"messages": [{"role": "user", "content": "What is continuous batching?"}], "temperature": 0}
            url = f"{ready['http']}/v1/chat/completions"
            answer = httpx2.post(url, json=body | {"model": "headrace-demo"}, timeout=30).json()
            assert "batch" in answer["choices"][0]["message"]["content"].lower()
            process.send_signal(signal.SIGTERM)
            assert process.wait(20) == 0
    finally:
        process.kill()
        process.wait(10)
