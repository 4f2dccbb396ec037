"""Builds the wheels of this checkout, which hold the kernels: for this machine, and for 64-bit Arm by a cross compiler.

    python tools/wheels/build_wheels.py FOLDER [--arm-root FOLDER]

Each is built from a copy of the sources, because a build puts its library among them.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).parents[2]
SOURCES = ("libs", "services", "pyproject.toml", "hatch_build.py", "README.md", "LICENSE", ".gitignore")
LIBRARY = "_kernels.so"
ARM_COMPILER = "usr/bin/aarch64-linux-gnu-g++-12"
BUILD_SECONDS = 1800


def build_wheel(folder: Path, variables: Mapping[str, str]) -> Path:
    """Builds one wheel into a folder and returns it. Raises SubprocessError where the build fails, and RuntimeError for
    a wheel without kernels, which is for every machine and slow on each."""
    with tempfile.TemporaryDirectory() as copy:
        for name in SOURCES:
            source, target = ROOT / name, Path(copy) / name
            if source.is_dir():
                shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__", LIBRARY))
            else:
                shutil.copy(source, target)
        built = Path(copy) / "built"
        command = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(built)]
        subprocess.run(command, cwd=copy, env=os.environ | variables, check=True, timeout=BUILD_SECONDS)
        (wheel,) = built.glob("*.whl")
        if wheel.stem.endswith("-any"):
            raise RuntimeError("the kernels were not compiled: what the build printed says why")
        folder.mkdir(parents=True, exist_ok=True)
        return Path(shutil.move(wheel, folder / wheel.name))


def cross_compiler(root: Path, path: Path) -> Path:
    """Writes a program that runs a compiler which was unpacked and not installed: its own libraries are below `root`,
    and so are those to link with, which its linker would look for in /usr."""
    libraries, sysroot = root / "usr/lib/x86_64-linux-gnu", f"-Wl,--sysroot={root}"
    path.write_text(f'#!/bin/sh\nLD_LIBRARY_PATH="{libraries}" exec "{root / ARM_COMPILER}" "{sysroot}" "$@"\n')
    path.chmod(0o755)
    return path


def main() -> None:
    """Builds what the arguments ask for, and prints the names."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--arm-root", type=Path, help="folder into which Debian's cross compiler was unpacked")
    given = parser.parse_args()
    print(build_wheel(given.folder, {}))
    if given.arm_root is None or not (given.arm_root / ARM_COMPILER).is_file():
        print("no wheel for aarch64: there is no compiler for it (make test-emulated fetches one on Debian 12)")
        return
    with tempfile.TemporaryDirectory() as folder:
        compiler = cross_compiler(given.arm_root.absolute(), Path(folder) / "c++")
        print(build_wheel(given.folder, {"CXX": str(compiler), "HEADRACE_TARGET_MACHINE": "aarch64"}))


if __name__ == "__main__":
    main()
