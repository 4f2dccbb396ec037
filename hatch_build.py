"""Compiles the CPU kernels with the system's compiler: as a build hook, and with `python hatch_build.py`.

Without a compiler the install goes on: models then need torch. An instruction set that does not compile is left out."""

import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

if __name__ == "__main__":
    # The Makefile compiles before anything is installed, and beside it.
    BuildHookInterface = dict
else:
    from hatchling.builders.hooks.plugin.interface import BuildHookInterface

FOLDER = Path("libs/headrace/engine/kernels")
LIBRARY = FOLDER / "_kernels.so"
# No contraction: a fused multiply-add happens where the source says so, and nowhere else, or results would depend on
# the compiler.
FLAGS = ("-O3", "-std=c++20", "-fPIC", "-pthread", "-fvisibility-inlines-hidden", "-ffp-contract=off")
# Left out where the compiler does not know them, for they change no result. Regrouping sums takes more registers than
# there are. Warnings are not errors here, because a newer compiler has new ones: a test makes them errors.
OPTIONAL_FLAGS = ("-fno-tree-reassoc", "-Wall", "-Wextra")
LINK_FLAGS = ("-shared", "-pthread")
# Another machine's C++ library may be older. Apple's linker has no such flags, and macOS one library for all.
if platform.system() == "Linux":
    LINK_FLAGS += ("-static-libstdc++", "-static-libgcc")
COMPILE_SECONDS = 900
"""Patience with one file."""
DONE_VARIABLE = "HEADRACE_KERNELS_COMPILED"
"""Variable that tells the hook that the kernels are compiled elsewhere at this moment."""
TARGET_VARIABLE = "HEADRACE_TARGET_MACHINE"
"""Variable that names the kind of processor to compile for, such as aarch64, where the compiler is for another one."""
REMEDY = """\
headrace: without kernels every model needs torch, and is several times slower. Install a compiler, then run this again:
    apt-get install g++         Debian, Ubuntu
    dnf install gcc-c++         Fedora, RHEL
    apk add g++                 Alpine
    xcode-select --install      macOS
"""
_AVX2 = ("-DHEADRACE_AVX2", "-mavx2", "-mfma", "-mf16c")
_AVX512 = (
    "-DHEADRACE_AVX512",
    *(f"-mavx512{part}" for part in ("f", "bw", "dq", "vl", "vnni")),
    "-mfma",
    "-mf16c",
)
VECTORS = {
    # Without fp16 arithmetic, which older processors lack: conversions need no flag.
    "neon": ("-DHEADRACE_NEON", "-march=armv8.2-a+dotprod"),
    "i8mm": ("-DHEADRACE_NEON", "-DHEADRACE_I8MM", "-march=armv8.2-a+dotprod+i8mm"),
    "avx2": _AVX2,
    "avx_vnni": (*_AVX2, "-DHEADRACE_AVX_VNNI", "-mavxvnni"),
    "avx512": _AVX512,
    # Its instructions are our own assembly, for which compilers have no flag.
    "amx": ("-DHEADRACE_AMX", *_AVX512),
}
"""Instruction sets that only some processors have, with the compiler's flags. One that does not compile is left out."""
ARM = {"neon", "i8mm"}
"""Instruction sets of 64-bit Arm. The others are of x86-64."""


class KernelBuildHook(BuildHookInterface[Any]):
    """Runs before a wheel or an editable install is put together."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compiles, and adds the library to the wheel, which then is for this platform only."""
        library = Path(self.root) / LIBRARY
        if os.environ.get(DONE_VARIABLE) and version == "editable":
            return
        if not compile_kernels(Path(self.root) / FOLDER / "src", library):
            return
        build_data["pure_python"] = False
        tag = wheel_tag(library.read_bytes())
        build_data |= {"infer_tag": True} if tag is None else {"tag": tag}
        build_data["artifacts"].append(f"/{LIBRARY}")


def wheel_tag(library: bytes) -> str | None:
    """Names the machines that a library runs on: those with its processor and the oldest glibc that it calls (PEP 600).
    It knows nothing of Python's ABI. None: it does not say, so that hatchling has to."""
    minors = [int(minor) for minor in re.findall(rb"GLIBC_2\.(\d+)", library)]
    if platform.system() != "Linux" or not minors:
        return None
    return f"py3-none-manylinux_2_{max(minors)}_{target_machine()}"


def compile_kernels(sources: Path, library: Path) -> bool:
    """Whether it worked. Says why when it did not."""
    compiler = os.environ.get("CXX") or shutil.which("c++") or shutil.which("g++") or shutil.which("clang++")
    if compiler is None:
        sys.stderr.write(f"headrace: there is no C++ compiler, so the kernels cannot be compiled\n{REMEDY}")
        return False
    draft = library.with_suffix(".new")
    try:
        with tempfile.TemporaryDirectory() as folder:
            objects = _compile(compiler, sources, Path(folder))
            _run([compiler, *LINK_FLAGS, "-o", str(draft), *objects])
    except (OSError, subprocess.SubprocessError) as error:
        sys.stderr.write(f"headrace: the kernels do not compile: {error}\n{REMEDY}")
        return False
    draft.replace(library)
    return True


def _compile(compiler: str, sources: Path, folder: Path) -> list[str]:
    """Compiles all files, and goes without the instruction sets that the compiler does not take. Returns the object
    files. Raises SubprocessError where any other file does not compile."""
    names = instruction_sets()
    commands = compile_commands(compiler, sources, folder, names)
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        failures = dict(zip(commands, pool.map(_failure, commands.values()), strict=True))
    refused = [name for name in names if failures.pop(_object(folder, name))]
    for failure in filter(None, failures.values()):
        raise failure
    if not refused:
        return list(commands)
    sys.stderr.write(f"headrace: the kernels do without {', '.join(refused)}, which this compiler does not take\n")
    commands = compile_commands(compiler, sources, folder, [name for name in names if name not in refused])
    # It lists the instruction sets that there are.
    _run(commands[_object(folder, "api")])
    return list(commands)


def _object(folder: Path, name: str) -> str:
    return str(folder / f"{name}.o")


def target_machine() -> str:
    """Names the kind of processor that the kernels are for: that of this machine, unless another one is asked for."""
    return os.environ.get(TARGET_VARIABLE) or platform.machine()


def instruction_sets() -> list[str]:
    """Names the instruction sets that some processors of this kind have."""
    kinds = {"x86_64": "x86", "amd64": "x86", "aarch64": "arm", "arm64": "arm"}
    kind = kinds.get(target_machine().lower())
    return [name for name in VECTORS if kind == ("arm" if name in ARM else "x86")]


def compile_commands(
    compiler: str, sources: Path, folder: Path, names: Sequence[str] | None = None
) -> dict[str, list[str]]:
    """Object files, and the command that makes each, for the instruction sets `names`; unset: for all. Portable code
    comes first, and the linker takes what several of them share from the first: code for newer processors must not slip
    into the rest."""
    names = instruction_sets() if names is None else names
    shared = (*FLAGS, *(flag for flag in OPTIONAL_FLAGS if _knows(compiler, flag)))
    present = tuple(f"-DHEADRACE_WITH_{name.upper()}" for name in names)
    flags: dict[str, tuple[str, ...]] = {"api": present, "pool": (), "portable": ("-DHEADRACE_ISA=portable",)}
    flags |= {name: (f"-DHEADRACE_ISA={name}", *VECTORS[name]) for name in names}
    commands = {}
    for name, options in flags.items():
        source = sources / ("isa.cpp" if name not in ("api", "pool") else f"{name}.cpp")
        target = _object(folder, name)
        commands[target] = [compiler, *shared, *options, "-c", str(source), "-o", target]
    return commands


def _knows(compiler: str, flag: str) -> bool:
    """Tells whether the compiler takes a flag. One that it takes with a warning counts as unknown."""
    command = [compiler, "-Werror", flag, "-x", "c++", "-fsyntax-only", "-"]
    return not subprocess.run(command, check=False, input=b"", capture_output=True, timeout=60).returncode


def _failure(command: list[str]) -> subprocess.SubprocessError | None:
    """Runs a command. Returns why it failed, or None."""
    try:
        _run(command)
    except subprocess.SubprocessError as error:
        return error
    return None


def _run(command: list[str]) -> None:
    subprocess.run(command, check=True, timeout=COMPILE_SECONDS)


if __name__ == "__main__":
    sys.exit(not compile_kernels(FOLDER / "src", LIBRARY))
