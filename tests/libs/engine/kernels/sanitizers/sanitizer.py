"""Sanitizers of the compiler: how kernels are built with one, and how Python runs them."""

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

from tests.libs.engine.kernels.kernel_build import find_compiler, load_build

from headrace.engine.kernels.library import LIBRARY_VARIABLE


@dataclass(frozen=True)
class Sanitizer:
    """One or several that work in the same build."""

    name: str
    flags: tuple[str, ...]
    runtimes: tuple[str, ...]
    """Libraries that must be loaded before Python's own, the most important first."""
    options: dict[str, str]
    """Environment variables that the runtimes read. The first report ends the process, with a code other than 0."""

    def why_not(self) -> str:
        """Reason why this machine cannot build with it; empty if it can."""
        if find_compiler() is None:
            return "there is no C++ compiler; to run it: install g++"
        absent = [name for name in self.runtimes if not runtime(name).is_absolute()]
        return f"the compiler has no {' and '.join(absent)}; to run it: install g++ with its sanitizers" * bool(absent)

    def build(self, root: Path, library: Path, *, portable_only: bool = False) -> None:
        """Compiles the kernels of all instruction sets, or the portable ones. Raises RuntimeError where it fails."""
        build = load_build(root)
        # Portable code is compiled within seconds where nothing is optimized, and the tests of it are small.
        level = "-O0" if portable_only else "-O1"
        build.FLAGS = tuple(level if flag == "-O3" else flag for flag in build.FLAGS)
        build.FLAGS += ("-g1", "-fno-omit-frame-pointer", *self.flags)
        build.LINK_FLAGS += self.flags
        build.COMPILE_SECONDS = 1800
        # GCC warns of code that its sanitizers add.
        build.OPTIONAL_FLAGS = ()
        if portable_only:
            build.VECTORS = {}
        if not build.compile_kernels(root / build.FOLDER / "src", library):
            raise RuntimeError(f"the kernels do not compile with {' '.join(self.flags)}: see the compiler's message")

    def environment(self, library: Path) -> dict[str, str]:
        """Variables of a process in which Python loads `library`."""
        preload = " ".join(str(runtime(name)) for name in self.runtimes)
        return {**os.environ, **self.options, "LD_PRELOAD": preload, LIBRARY_VARIABLE: str(library)}


def runtime(name: str) -> Path:
    """Path of one of the compiler's libraries; the bare name where it has none."""
    compiler = find_compiler() or "c++"
    done = subprocess.run([compiler, f"-print-file-name={name}"], capture_output=True, text=True, timeout=60)
    return Path(done.stdout.strip() or name)


ADDRESS = Sanitizer(
    "AddressSanitizer and UndefinedBehaviorSanitizer",
    ("-fsanitize=address,undefined,float-cast-overflow", "-fno-sanitize-recover=all"),
    ("libasan.so", "libubsan.so"),
    # Python frees little of what it has at its end, and that is no fault of the kernels.
    {"ASAN_OPTIONS": "detect_leaks=0", "UBSAN_OPTIONS": "print_stacktrace=1"},
)
THREAD = Sanitizer(
    "ThreadSanitizer",
    ("-fsanitize=thread",),
    ("libtsan.so",),
    # Nothing is suppressed: tests leave torch one thread, and Python's locks are seen.
    {"TSAN_OPTIONS": "halt_on_error=1 exitcode=66"},
)
SANITIZERS = (ADDRESS, THREAD)
