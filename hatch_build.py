"""Compiles the CPU kernels with the system's compiler. Without one the install goes on: the engine then uses torch."""

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

FOLDER = Path("libs/headrace/engine/kernels/cpu")
SOURCE = FOLDER / "quantized_gemm.cpp"
LIBRARY = FOLDER / "_kernels.so"
# No contraction: a fused multiply-add happens where the source says so, and nowhere else, or results would depend on
# the compiler.
FLAGS = ("-O3", "-std=c++17", "-shared", "-fPIC", "-ffp-contract=off")


class KernelBuildHook(BuildHookInterface[Any]):
    """Runs before a wheel or an editable install is put together."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compiles, and adds the library to the wheel, which then is for this platform only."""
        library = Path(self.root) / LIBRARY
        if not compile_kernels(Path(self.root) / SOURCE, library):
            return
        build_data["pure_python"] = False
        build_data["infer_tag"] = True
        build_data["artifacts"].append(f"/{LIBRARY}")


def compile_kernels(source: Path, library: Path) -> bool:
    """Whether it worked. Says why when it did not."""
    compiler = os.environ.get("CXX") or shutil.which("c++") or shutil.which("g++") or shutil.which("clang++")
    if compiler is None:
        sys.stderr.write("headrace: no C++ compiler; quantised weights will run through torch\n")
        return False
    draft = library.with_suffix(".new")
    try:
        subprocess.run([compiler, *FLAGS, "-o", str(draft), str(source)], check=True, timeout=300)
    except (OSError, subprocess.SubprocessError) as error:
        sys.stderr.write(f"headrace: the kernels do not compile ({error}); quantised weights will run through torch\n")
        return False
    draft.replace(library)
    return True
