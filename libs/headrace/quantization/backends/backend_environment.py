"""The environments of third-party quantization packages: each needs versions that nothing else does.

AutoAWQ and AutoGPTQ are unmaintained. The pinned versions are known to work together.
"""

import os
import shlex
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from headrace.errors.tree import ConfigError, Unavailable

BackendName = Literal["autoawq", "autogptq", "gptqmodel"]
PYTHON_VARIABLE = "HEADRACE_QUANTIZE_PYTHON"
IMPORT_SECONDS = 300
"""Maximum seconds that the first import of such a package may take: it compiles a lot."""


@dataclass(frozen=True, slots=True)
class QuantizationPackage:
    """A third-party quantization package."""

    name: BackendName
    module: str
    """Import name of the package."""
    methods: tuple[Literal["gptq", "awq"], ...]
    """Methods that the package supports. The first is the default."""
    requirements: tuple[str, ...]
    """Requirements that pip installs first."""
    built_requirements: tuple[str, ...] = ()
    """Requirements that pip builds after `requirements`, using the packages already installed."""

    @property
    def usual_folder(self) -> Path:
        """Default folder of the package's environment."""
        data = Path(os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share")
        return data / "headrace" / "backends" / self.name


_COMMON = ("accelerate", "datasets", "safetensors", "setuptools>=77.0.3", "wheel")
BACKENDS: dict[str, QuantizationPackage] = {
    "autoawq": QuantizationPackage(
        "autoawq", "awq", ("awq",), (*_COMMON, "torch==2.13.0", "transformers==4.51.3"), ("autoawq==0.2.9",)
    ),
    "autogptq": QuantizationPackage(
        "autogptq",
        "auto_gptq",
        ("gptq",),
        (*_COMMON, "torch==2.13.0", "transformers==4.51.3", "peft==0.11.1", "rouge", "gekko", "sentencepiece"),
        ("auto-gptq==0.7.1",),
    ),
    "gptqmodel": QuantizationPackage(
        "gptqmodel", "gptqmodel", ("gptq", "awq"), (*_COMMON, "torch==2.15.0", "ninja"), ("gptqmodel==7.7.0",)
    ),
}


def find_python(backend: QuantizationPackage, chosen: Path | None) -> Path:
    """Returns the Python of the chosen environment, of the one in HEADRACE_QUANTIZE_PYTHON, or of the default folder.

    Raises ConfigError with instructions for making one if it is missing or lacks the package.
    """
    named = os.environ.get(PYTHON_VARIABLE)
    python = chosen or (Path(named) if named else backend.usual_folder / "bin" / "python")
    if not python.is_file():
        raise ConfigError(f"{python} is missing. {_how_to_make(backend)}")
    try:
        done = subprocess.run(
            [str(python), "-c", f"import {backend.module}"],
            capture_output=True,
            text=True,
            timeout=IMPORT_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ConfigError(f"{python} cannot be run: {error}") from error
    if done.returncode:
        reason = (done.stderr.strip().splitlines() or ["no reason given"])[-1]
        raise ConfigError(f"{python} cannot import {backend.module} ({reason}). {_how_to_make(backend)}")
    return python


def make_environment(backend: QuantizationPackage) -> Path:
    """Makes the environment in its default folder if needed. Returns its Python. Raises Unavailable if pip fails."""
    python = backend.usual_folder / "bin" / "python"
    for command in _commands(backend):
        # Output of pip and venv is for people; stdout is for results.
        done = subprocess.run(command, stdout=sys.stderr, env={**os.environ, "BUILD_CUDA_EXT": "0"}, check=False)
        if done.returncode:
            raise Unavailable(f"{shlex.join(command)} failed with exit status {done.returncode}")
    return python


def _commands(backend: QuantizationPackage) -> list[list[str]]:
    folder = str(backend.usual_folder)
    pip = [f"{folder}/bin/python", "-m", "pip", "install"]
    return [
        [sys.executable, "-m", "venv", folder],
        [*pip, *backend.requirements],
        [*pip, "--no-build-isolation", *backend.built_requirements],
    ]


def _how_to_make(backend: QuantizationPackage) -> str:
    return (
        f"{backend.name} needs its own environment: add --make-backend to make it in {backend.usual_folder}, or "
        f"name one that has {', '.join(backend.built_requirements)} with --backend-python or {PYTHON_VARIABLE}."
    )


if __name__ == "__main__":
    make_environment(BACKENDS[sys.argv[1]])
