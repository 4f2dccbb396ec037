"""The kernels compiled for 64-bit Arm, with a program that serves them, on machines of other kinds."""

import os
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType

import pytest
from tests.libs.engine.kernels.kernel_build import load_build
from tests.unpacked_packages import ARM_COMPILER, unpacked

FOLDER = unpacked(ARM_COMPILER)
COMPILER = FOLDER / "bin" / "aarch64-linux-gnu-g++-12"
EMULATOR = FOLDER / "bin" / "qemu-aarch64"
SERVER = Path(__file__).with_name("emulated_arm") / "serve.cpp"

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
        return self._link(self._folder / "neon.o")

    def compile_neon(self, sources: Path) -> Path:
        """Compiles other sources of the code for NEON, without optimization, and returns a program with it. Raises
        SubprocessError."""
        folder = sources.parent
        command = self._commands(self._build, sources, "-O0")[str(self._folder / "neon.o")]
        with unpacked_libraries():
            self._run([*command[:-1], str(folder / "neon.o")])
        return self._link(folder / "neon.o")

    def _commands(self, build: ModuleType, sources: Path, level: str) -> dict[str, list[str]]:
        build.FLAGS = tuple(level if flag.startswith("-O") else flag for flag in build.FLAGS)
        commands: dict[str, list[str]] = build.compile_commands(str(COMPILER), sources, self._folder, ["neon"])
        return commands

    def _link(self, neon: Path) -> Path:
        others = (str(self._folder / f"{name}.o") for name in ("api", "pool", "portable"))
        program = neon.with_name("serve")
        command = [str(COMPILER), "-std=c++20", "-O1", "-Wall", "-Wextra", "-Werror", "-pthread", "-static"]
        place = f"-Wl,-Ttext-segment={PROGRAM_PLACE:#x}"
        with unpacked_libraries():
            self._run([*command, place, f"-I{self._sources}", "-o", str(program), str(SERVER), *others, str(neon)])
        return program

    def _run(self, command: list[str]) -> None:
        subprocess.run(command, check=True, timeout=self._build.COMPILE_SECONDS)


@contextmanager
def unpacked_libraries() -> Iterator[None]:
    """Lets programs that are started meanwhile find their shared libraries beside them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LD_LIBRARY_PATH", str(FOLDER / "lib" / "x86_64-linux-gnu"))
        yield


def emulator_command(program: Path, processor: str) -> list[str]:
    """Runs `program` on an emulated processor."""
    return [str(EMULATOR), "-cpu", processor, str(program)]
