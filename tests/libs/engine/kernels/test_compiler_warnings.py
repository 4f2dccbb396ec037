"""The kernels compile without a warning on every instruction set, and a compiler that lacks a flag does without it."""

import subprocess
from pathlib import Path

import pytest
from tests.libs.engine.kernels.emulated_tiles import AMX
from tests.libs.engine.kernels.kernel_build import find_compiler, load_build
from tests.libs.engine.kernels.test_avx512_emulated import SIMDE_HEADERS, has_simde

pytest.importorskip("hatchling", reason="the build backend is not installed; to run it: make test-emulated")
COMPILER = find_compiler()
pytestmark = [
    pytest.mark.skipif(COMPILER is None, reason="there is no C++ compiler; to run it: install g++"),
    pytest.mark.emulated,
    pytest.mark.slow,
    pytest.mark.timeout(1200),
]

OBJECTS = ("api", "pool", "portable", "avx2", "avx_vnni", "amx", "emulated amx")
"""Object files. The code for AMX has all of that for AVX-512."""


def compile_strictly(command: list[str]) -> str:
    """Compiles with warnings as errors. Returns what the compiler says."""
    done = subprocess.run([*command, "-Wall", "-Wextra", "-Werror"], capture_output=True, text=True)
    return done.stderr or ("" if done.returncode == 0 else f"the compiler returned {done.returncode}")


@pytest.mark.parametrize("name", OBJECTS)
def test_nothing_is_warned_of(root: Path, tmp_path: Path, name: str) -> None:
    build = load_build(root)
    assert COMPILER is not None
    if name.startswith("emulated"):
        if not has_simde(COMPILER):
            pytest.skip(f"SIMDe's headers are not in {SIMDE_HEADERS}; to run it: make test-emulated")
        build.VECTORS["amx"] = AMX
    commands = build.compile_commands(COMPILER, root / build.FOLDER / "src", tmp_path)
    target = str(tmp_path / f"{name.split()[-1]}.o")
    if target not in commands:
        pytest.skip(f"{name} is for x86-64; to run it: a processor of that kind")
    assert compile_strictly(commands[target]) == ""


def test_a_warning_is_noticed(root: Path, tmp_path: Path) -> None:
    source = tmp_path / "src" / "pool.cpp"
    source.parent.mkdir()
    source.write_text("int f(int unused) { return 0; }\n")
    build = load_build(root)
    commands = build.compile_commands(COMPILER, source.parent, tmp_path)
    assert "unused" in compile_strictly(commands[str(tmp_path / "pool.o")])


def test_a_flag_that_a_compiler_does_not_know_is_left_out(root: Path, tmp_path: Path) -> None:
    """An installation goes on with the flags that are left."""
    compiler = tmp_path / "c++"
    compiler.write_text(f'#!/bin/sh\ncase " $* " in *" -Wextra "*) exit 1;; esac\nexec {COMPILER} "$@"\n')
    compiler.chmod(0o755)
    build = load_build(root)
    command = next(iter(build.compile_commands(str(compiler), root / build.FOLDER / "src", tmp_path).values()))
    assert "-Wall" in command
    assert "-Wextra" not in command
    assert subprocess.run(command, capture_output=True).returncode == 0
