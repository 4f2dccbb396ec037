"""Options of a command that choose the code that quantizes."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter


@Parameter(name="*")
@dataclass(frozen=True, slots=True)
class BackendOptions:
    """Code that quantizes: our own, or that of a package in an environment of its own."""

    backend: Literal["headrace", "autoawq", "autogptq", "gptqmodel"] = "headrace"
    """headrace is our own code; the others are packages, and cannot go on where a killed run was."""
    backend_python: Path | None = None
    """The Python that has the package; HEADRACE_QUANTIZE_PYTHON says so too."""
    make_backend: Annotated[bool, Parameter(negative="")] = False
    """Make the package's environment first, with pip."""
