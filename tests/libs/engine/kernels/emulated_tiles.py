"""The code for AMX on machines without it: SIMDe computes the intrinsics of AVX-512, and a model the tiles."""

import os
import subprocess
from pathlib import Path
from typing import Any

from tests.libs.engine.kernels.kernel_build import load_build
from tests.libs.engine.kernels.test_avx512_emulated import EMULATED, FLAGS

MODEL = Path(__file__).with_name("emulated_amx")
AMX = ("-DHEADRACE_AMX", "-DHEADRACE_EMULATED_TILES", f"-I{MODEL}", *EMULATED)


def emulated_build(root: Path, level: str = "-O1") -> Any:
    """The build of an installation, but for the portable kernels and the emulated ones for AMX alone. `level` of
    optimization: the compiler takes longer than small products."""
    build = load_build(root)
    build.FLAGS = (*(level if flag == "-O3" else flag for flag in build.FLAGS), *FLAGS)
    build.VECTORS = {"amx": AMX}
    return build


def compile_amx(build: Any, compiler: str, sources: Path, objects: Path, folder: Path) -> Path:
    """Compiles the kernels for AMX of `sources` into a library with the other `objects`."""
    command = build.compile_commands(compiler, sources, folder)[str(folder / "amx.o")]
    build._run(command)
    others = [str(objects / f"{name}.o") for name in ("api", "pool", "portable")]
    library = folder / "_kernels.so"
    link = [compiler, *build.LINK_FLAGS, "-o", str(library), *others, str(folder / "amx.o")]
    subprocess.run(link, check=True, timeout=build.COMPILE_SECONDS)
    return library


def environment(library: Path) -> dict[str, str]:
    """Variables of a process that runs on the emulated kernels and no others."""
    return {**os.environ, "HEADRACE_KERNELS_LIBRARY": str(library), "HEADRACE_ISA": "amx"}
