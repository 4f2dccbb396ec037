"""The kernels compiled for 64-bit Arm, with a program that serves them, on machines of other kinds."""

import os
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.libs.engine.kernels.kernel_build import load_build
from tests.unpacked_packages import ARM_COMPILER, unpacked

FOLDER = unpacked(ARM_COMPILER)
COMPILER = FOLDER / "bin" / "aarch64-linux-gnu-g++-12"
EMULATOR = FOLDER / "bin" / "qemu-aarch64"
SERVER = Path(__file__).with_name("emulated_arm") / "serve.cpp"

SETS = ("neon", "i8mm")
PROGRAM_PLACE = 0x20_0000_0000
"""Address of the program: far from a Python that is linked for a fixed address, as Debian's is, and from its heap."""


class ArmBuild:
    """A folder with object files, and the programs that are linked from them."""

    def __init__(self, root: Path, folder: Path) -> None:
        self._build, self._folder = load_build(root), folder
        self._sources = root / self._build.FOLDER / "src"

    def compile(self) -> Path:
        """Compiles all, and returns the program. Raises SubprocessError where something does not compile."""
        commands = self._commands(self._build, self._sources, "-O1")
        with unpacked_libraries(), ThreadPoolExecutor(os.cpu_count()) as pool:
            list(pool.map(self._run, commands.values()))
        return self._link(self._folder, {})

    def compile_set(self, name: str, sources: Path) -> Path:
        """Compiles other sources of the code for one instruction set, without optimization, and returns a program with
        it. Raises SubprocessError."""
        target = sources.parent / f"{name}.o"
        command = self._commands(self._build, sources, "-O0")[str(self._folder / target.name)]
        with unpacked_libraries():
            self._run([*command[:-1], str(target)])
        return self._link(sources.parent, {name: target})

    def _commands(self, build: Any, sources: Path, level: str) -> dict[str, list[str]]:
        build.FLAGS = tuple(level if flag.startswith("-O") else flag for flag in build.FLAGS)
        commands: dict[str, list[str]] = build.compile_commands(str(COMPILER), sources, self._folder, list(SETS))
        return commands

    def _link(self, folder: Path, others: Mapping[str, Path]) -> Path:
        """Links the program in `folder`, with other object files for some names."""
        names = ("api", "pool", "portable", *SETS)
        objects = [str(others.get(name, self._folder / f"{name}.o")) for name in names]
        program = folder / "serve"
        command = [str(COMPILER), "-std=c++20", "-O1", "-Wall", "-Wextra", "-Werror", "-pthread", "-static"]
        place = f"-Wl,-Ttext-segment={PROGRAM_PLACE:#x}"
        with unpacked_libraries():
            self._run([*command, place, f"-I{self._sources}", "-o", str(program), str(SERVER), *objects])
        return program

    def _run(self, command: list[str]) -> None:
        self._build._run(command)


@contextmanager
def unpacked_libraries() -> Iterator[None]:
    """Lets programs that are started meanwhile find their shared libraries beside them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LD_LIBRARY_PATH", str(FOLDER / "lib" / "x86_64-linux-gnu"))
        yield


def emulator_command(program: Path, processor: str) -> list[str]:
    """Runs `program` on an emulated processor."""
    return [str(EMULATOR), "-cpu", processor, str(program)]
