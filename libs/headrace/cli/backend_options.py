"""Options of a command that choose the code that quantizes."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter


@Parameter(name="*")
@dataclass(frozen=True, slots=True)
class BackendOptions:
    """Code that quantizes: Headrace's own, or a package in its own environment."""

    backend: Literal["headrace", "autoawq", "autogptq", "gptqmodel"] = "headrace"
    """headrace is Headrace's own code; the others are packages, and cannot resume a run that was killed."""
    backend_python: Path | None = None
    """The Python that has the package; HEADRACE_QUANTIZE_PYTHON sets it too."""
    make_backend: Annotated[bool, Parameter(negative="")] = False
    """Create the package's environment first, with pip."""
