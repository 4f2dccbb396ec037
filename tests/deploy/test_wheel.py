"""The wheel that images are made of holds everything that runs. It works on another machine: installed into an
environment without sources, compiler or torch, it serves."""

import json
import os
import platform
import re
import shutil
import subprocess
import sys
import sysconfig
import venv
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import httpx2
import psutil
import pytest
from tests.e2e.test_adapters import save_adapter
from tests.libs.engine.gguf_files import convert
from tests.libs.engine.needed_kernels import needs_kernels

from headrace.demo_model import CHECKPOINT
from headrace.engine.kernels.library import PATH
from headrace.supervisor.state import read_platform

pytest.importorskip("hatchling", reason="the build backend is not installed; to run it: make test")


pytestmark = pytest.mark.process
TIMEOUT, COMMAND_SECONDS = 30.0, 120.0
NORMAL, VOCABULARY_SIZE = 1, 2048
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
@pytest.mark.skipif(platform.system() != "Linux", reason="only Linux has tags by glibc; to run it: use Linux")
def test_auditwheel_agrees_with_the_tag(wheel: Path) -> None:
    """It allows the tag, or one for still older systems, and finds no library that the wheel should bring along."""
    pytest.importorskip("auditwheel", reason="auditwheel is not installed; to run it: make wheels")
    command = [sys.executable, "-m", "auditwheel", "show", str(wheel)]
    said = subprocess.run(command, capture_output=True, text=True, check=True, timeout=COMMAND_SECONDS).stdout
    found = re.search(r'platform tag:\s+"manylinux_2_(\d+)_(\w+)"', said)
    own = re.search(r"manylinux_2_(\d+)_(\w+)\.whl", wheel.name)
    assert found
    assert own
    assert int(found[1]) <= int(own[1])
    assert found[2] == own[2] == platform.machine()


@pytest.fixture(scope="module")
def settings(environment: Path) -> dict[str, str]:
    """Variables of a shell in which that environment is active."""
    path = f"{environment / 'bin'}{os.pathsep}{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    return {name: value for name, value in os.environ.items() if name != "PYTHONPATH"} | {"PATH": path}


@needs_kernels
@pytest.mark.slow
def test_a_newcomer_gets_through_the_first_ten_minutes(
    environment: Path, settings: dict[str, str], tmp_path: Path
) -> None:
    """Covers background start, console, chat, a GGUF model, an alias, an adapter, an API key and a restart."""
    torch = [str(environment / "bin" / "python"), "-c", "import torch"]
    assert subprocess.run(torch, env=settings, capture_output=True, check=False).returncode != 0
    person = Newcomer(environment / "bin" / "headrace", settings, tmp_path)
    person.says("up", "--detach", "--http-port", "0", "--grpc-port", "0")
    try:
        page = httpx2.get(person.http, headers={"accept": "text/html"}, timeout=TIMEOUT)
        assert "<title>Headrace" in page.text
        assert "batch" in person.says("chat", "-p", "What is continuous batching?", "--temperature", "0").lower()
        person.says("models", "load", f"own={own_model(tmp_path)}")
        completion = {"model": "own", "prompt": [5, 6, 7], "max_tokens": 4, "ignore_eos": True}
        assert person.asks("/v1/completions", completion)["usage"]["completion_tokens"] == 4
        person.says("models", "alias", "gpt-4o", "headrace-demo")
        save_adapter(tmp_path / "lora")
        person.says("models", "load", f"tuned={tmp_path / 'lora'}", "--adapter-of", "headrace-demo")
        chat = {"messages": [{"role": "user", "content": "What is TTFT?"}], "max_tokens": 8}
        assert person.asks("/v1/chat/completions", chat | {"model": "gpt-4o"})["model"] == "headrace-demo"
        assert person.asks("/v1/chat/completions", chat | {"model": "tuned"})["model"] == "tuned"
        person.key = json.loads(person.says("keys", "create", "laptop", "--json"))["key"]
        person.says("restart")
        assert httpx2.get(f"{person.http}/v1/models", timeout=TIMEOUT).status_code == 401
        names = {model["id"] for model in person.asks("/v1/models")["data"]}
        assert names == {"headrace-demo", "own", "tuned", "gpt-4o"}
        assert "own" in person.says("status")
    finally:
        person.says("stop")
    assert not read_leftovers(tmp_path / "state")


class Newcomer:
    """Types commands in an empty folder, and calls the platform as clients do."""

    def __init__(self, command: Path, settings: Mapping[str, str], folder: Path) -> None:
        self._command = command
        self._settings = settings
        self._folder = folder
        self.key = ""

    @property
    def http(self) -> str:
        """URL of the platform that runs."""
        return str(read_platform(self._folder / "state")["http"])

    def says(self, *arguments: str) -> str:
        """Returns the output of a command that succeeds."""
        given = [str(self._command), *arguments, "--state-dir", str(self._folder / "state")]
        variables = {**self._settings, **({"HEADRACE_API_KEY": self.key} if self.key else {})}
        done = subprocess.run(
            given, cwd=self._folder, env=variables, capture_output=True, text=True, timeout=COMMAND_SECONDS, check=False
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def asks(self, path: str, body: Mapping[str, Any] | None = None) -> Any:
        """Returns the answer to a request that succeeds."""
        headers = {"authorization": f"Bearer {self.key}"} if self.key else {}
        url, method = f"{self.http}{path}", "GET" if body is None else "POST"
        answer = httpx2.request(method, url, json=body, headers=headers, timeout=TIMEOUT)
        assert answer.status_code == 200, answer.text
        return answer.json()


def own_model(folder: Path) -> Path:
    """Makes a GGUF file of the bundled model's weights, with a vocabulary of its own."""
    vocabulary = [(f"t{index}", NORMAL) for index in range(VOCABULARY_SIZE)]
    return convert(CHECKPOINT, folder / "own.gguf", vocabulary=vocabulary, end=2)


def read_leftovers(state: Path) -> list[psutil.Process]:
    """Returns processes that were started for a state folder and still run."""
    return [each for each in psutil.process_iter(["cmdline"]) if str(state) in " ".join(each.info["cmdline"] or ())]
