"""A kept object file serves where the compiler would make the same, and nowhere else."""

import os
import subprocess
from pathlib import Path

import pytest
from tests.libs.engine.kernels import kept_objects
from tests.libs.engine.kernels.kept_objects import compile_kept
from tests.libs.engine.kernels.kernel_build import find_compiler

COMPILER = find_compiler()
pytestmark = [
    pytest.mark.process,
    pytest.mark.skipif(COMPILER is None, reason="there is no C++ compiler; to run it: install g++"),
]


class Project:
    """A source, a header, and the command that compiles them."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.kept = folder, folder / "kept"
        (folder / "size.h").write_text("const int size = 4;\n")
        (folder / "a.cpp").write_text('#include "size.h"\nint f() { return size; }\n')

    def compile(self, *flags: str, compiler: str = COMPILER or "", target: str = "a.o") -> bool:
        """Returns whether a kept file served."""
        command = [compiler, *flags, "-c", str(self.folder / "a.cpp"), "-o", str(self.folder / target)]
        return compile_kept(command, 60, self.kept)


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path)


def test_the_same_text_with_the_same_flags_is_compiled_once(project: Project) -> None:
    assert not project.compile("-O1")
    assert project.compile("-O1", target="b.o")
    assert (project.folder / "a.o").read_bytes() == (project.folder / "b.o").read_bytes()


def test_another_flag_header_or_compiler_is_compiled(project: Project) -> None:
    assert not project.compile("-O1")
    assert not project.compile("-O2")
    assert not project.compile("-O1", "-DMORE")
    (project.folder / "size.h").write_text("const int size = 5;\n")
    assert not project.compile("-O1")
    other = project.folder / "c++"
    other.write_text(f'#!/bin/sh\n[ "$1" = --version ] && echo 99 || exec {COMPILER} "$@"\n')
    other.chmod(0o755)
    assert not project.compile("-O1", compiler=str(other))


def test_lines_count_where_a_debugger_reads_them(project: Project) -> None:
    for flag, serves in (("-O1", True), ("-g1", False)):
        project.compile(flag)
        source = project.folder / "a.cpp"
        source.write_text(f"\n\n{source.read_text()}")
        assert project.compile(flag) is serves


def test_what_does_not_compile_fails_each_time(project: Project) -> None:
    (project.folder / "a.cpp").write_text("int f() { return g(); }\n")
    for _ in range(2):
        with pytest.raises(subprocess.CalledProcessError):
            project.compile()
    assert list(project.kept.glob("*.o")) == []


def test_the_oldest_give_way(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept_objects, "MOST_FILES", 2)
    for number in range(3):
        project.compile(f"-DN={number}")
        for age, path in enumerate(sorted(project.kept.glob("*.o"), key=lambda path: -path.stat().st_mtime)):
            os.utime(path, (1000 - age, 1000 - age))
    assert len(list(project.kept.iterdir())) == 2
    assert project.compile("-DN=2")
    assert not project.compile("-DN=0")
