"""Tiles that are missing, lost or wrong are noticed before they are used, and harm no process."""

import ctypes
import os
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.libs.engine.kernels.emulated_tiles import MODEL
from tests.libs.engine.kernels.kernel_build import find_compiler, load_build

pytest.importorskip("hatchling", reason="the build backend is not installed; to run it: make test-emulated")
COMPILER = find_compiler()
CPU = Path("/proc/cpuinfo")
HAS_TILES = CPU.is_file() and "amx_int8" in CPU.read_text()
pytestmark = [
    pytest.mark.skipif(COMPILER is None, reason="there is no C++ compiler; to run it: install g++"),
    pytest.mark.skipif(
        os.uname().machine != "x86_64", reason="tiles are x86-64's; to run it: a processor of that kind"
    ),
    pytest.mark.emulated,
    pytest.mark.slow,
]
EMULATED = ("-DHEADRACE_EMULATED_TILES", f"-I{MODEL}")

Compile = Callable[..., ctypes.CDLL]


@pytest.fixture
def compiled(root: Path, tmp_path: Path) -> Compile:
    """Compiles the trial into a library, and loads it."""

    def compile_probe(*flags: str, source: str = "") -> ctypes.CDLL:
        assert COMPILER is not None
        build, path = load_build(root), tmp_path / f"{len(list(tmp_path.iterdir()))}.so"
        headers = root / build.FOLDER / "src"
        command = [COMPILER, "-O1", "-std=c++20", "-fPIC", "-shared", *flags, f"-I{headers}", "-o", str(path)]
        subprocess.run([*command, str(MODEL / "tile_probe.cpp")], check=True, timeout=120)
        library = ctypes.CDLL(str(path))
        library.why_tiles_fail.restype = library.why_no_tiles.restype = ctypes.c_char_p
        return library

    return compile_probe


def test_tiles_that_hold_are_used(compiled: Compile) -> None:
    library = compiled(*EMULATED)
    started = time.monotonic()
    assert library.why_no_tiles() == b""
    assert time.monotonic() - started < 5


def test_tiles_that_are_lost_are_noticed(compiled: Compile) -> None:
    assert b"lost" in compiled(*EMULATED, "-DLOSES_TILES").why_no_tiles()


def test_tiles_that_crash_end_no_process_but_their_own(compiled: Compile) -> None:
    """A processor or system without tiles, whatever it says."""
    library = compiled()
    if HAS_TILES and not library.why_no_tiles():
        assert library.why_tiles_fail() == b""
    else:
        assert b"crash" in library.why_tiles_fail()


def test_a_processor_without_tiles_is_not_tried(compiled: Compile) -> None:
    reason = compiled().why_no_tiles()
    assert HAS_TILES or reason == b"this processor does not have it"


def test_a_trial_leaves_no_process_behind(compiled: Compile) -> None:
    library = compiled(*EMULATED)
    for _ in range(3):
        library.why_no_tiles()
    with pytest.raises(ChildProcessError):
        os.waitpid(-1, os.WNOHANG)
