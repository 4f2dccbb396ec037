"""The build of the kernels, as an installation runs it."""

import importlib.util
import os
import shutil
from pathlib import Path
from typing import Any

from tests.libs.engine.kernels.kept_objects import compile_kept


def load_build(root: Path) -> Any:
    """Loads a copy of the module `hatch_build.py` of its own, whose constants may be changed. Its object files are
    kept."""
    spec = importlib.util.spec_from_file_location("kernel_build_copy", root / "hatch_build.py")
    assert spec is not None
    assert spec.loader is not None
    build: Any = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(build)
    build._run = lambda command: compile_kept(command, build.COMPILE_SECONDS)
    return build


def find_compiler() -> str | None:
    """The compiler that an installation takes."""
    return os.environ.get("CXX") or shutil.which("c++") or shutil.which("g++") or shutil.which("clang++")
