"""An instruction set that the compiler does not take is left out, and the others are there."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.libs.engine.kernels.kernel_build import find_compiler, load_build

pytest.importorskip("hatchling", reason="the build backend is not installed; to run it: make test-emulated")
COMPILER = find_compiler()
pytestmark = [
    pytest.mark.skipif(COMPILER is None, reason="there is no C++ compiler; to run it: install g++"),
    pytest.mark.skipif(os.uname().machine != "x86_64", reason="there is but one set; to run it: an x86-64 processor"),
    pytest.mark.emulated,
    pytest.mark.slow,
    pytest.mark.timeout(1200),
]
SAYS = """
import json
from headrace.engine.kernels.library import Instructions, why_not
print(json.dumps({each.name: why_not(each) for each in Instructions}))
"""


def picky_compiler(tmp_path: Path, flag: str) -> str:
    """A compiler that refuses a flag, as one would whose assembler is too old."""
    compiler = tmp_path / "c++"
    compiler.write_text(f'#!/bin/sh\ncase " $* " in *" {flag} "*) exit 1;; esac\nexec {COMPILER} "$@"\n')
    compiler.chmod(0o755)
    return str(compiler)


def test_a_set_that_does_not_compile_is_left_out(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    build, library = load_build(root), tmp_path / "_kernels.so"
    build.FLAGS = tuple("-O0" if flag == "-O3" else flag for flag in build.FLAGS)
    # To compile fewer.
    build.VECTORS = {name: build.VECTORS[name] for name in ("avx2", "amx")}
    monkeypatch.setenv("CXX", picky_compiler(tmp_path, "-DHEADRACE_AMX"))
    assert build.compile_kernels(root / build.FOLDER / "src", library)
    assert "do without amx" in capfd.readouterr().err
    environment = os.environ | {"HEADRACE_KERNELS_LIBRARY": str(library)}
    environment.pop("HEADRACE_ISA", None)
    done = subprocess.run([sys.executable, "-c", SAYS], env=environment, capture_output=True, text=True, timeout=60)
    found = json.loads(done.stdout)
    assert found.pop("PORTABLE") == ""
    assert found.pop("AVX2") in ("", "this processor does not have it")
    assert set(found.values()) == {"the kernels were compiled without it"}


def test_code_that_no_compiler_takes_is_a_failure(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    build, library = load_build(root), tmp_path / "_kernels.so"
    build.FLAGS = tuple("-O0" if flag == "-O3" else flag for flag in build.FLAGS)
    build.VECTORS = {}
    monkeypatch.setenv("CXX", picky_compiler(tmp_path, "-DHEADRACE_ISA=portable"))
    assert not build.compile_kernels(root / build.FOLDER / "src", library)
    assert not library.exists()
    assert "the kernels do not compile" in capfd.readouterr().err
