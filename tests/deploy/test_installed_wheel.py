"""The wheel works on another machine: installed into an environment without sources, compiler or torch, it serves."""

import json
import os
import platform
import shutil
import signal
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

import httpx2
import pytest
from tests.libs.engine.needed_kernels import needs_kernels

from headrace.engine.kernels.library import PATH

pytest.importorskip("hatchling", reason="the build backend is not installed; to run it: make test")
pytestmark = [pytest.mark.process, pytest.mark.slow, needs_kernels]
SOURCES = ("libs", "services", "pyproject.toml", "hatch_build.py", "README.md", "LICENSE", ".gitignore")
LINKER = """#!/bin/sh
while [ "$1" != -o ]; do shift; done
cp "{library}" "$2"
"""
"""Stands in for the compiler: gives the library that was compiled when Headrace was installed."""


@pytest.fixture(scope="module")
def wheel(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A wheel with real kernels, built from a copy of the sources."""
    folder = tmp_path_factory.mktemp("wheel")
    for name in SOURCES:
        if (root / name).is_dir():
            shutil.copytree(root / name, folder / name, ignore=shutil.ignore_patterns("__pycache__", "_kernels.so"))
        else:
            shutil.copy(root / name, folder / name)
    compiler = folder / "compiler"
    compiler.write_text(LINKER.format(library=PATH))
    compiler.chmod(0o755)
    command = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(folder / "dist")]
    subprocess.run(command, cwd=folder, env=os.environ | {"CXX": str(compiler)}, capture_output=True, check=True)
    (built,) = (folder / "dist").glob("headrace-*.whl")
    return built


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


@pytest.mark.skipif(platform.system() != "Linux", reason="only Linux has tags by glibc; to run it: use Linux")
def test_the_tag_names_processor_and_glibc(wheel: Path) -> None:
    assert wheel.name.endswith(f"_{platform.machine()}.whl")
    assert "-py3-none-manylinux_2_" in wheel.name


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
