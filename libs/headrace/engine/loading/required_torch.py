"""Torch, where a model needs it. Text models that the kernels run do without."""

import importlib.util
import sys

from headrace.errors.tree import ConfigError


def torch_command() -> str:
    """Returns the command that installs torch into this environment."""
    return f"{sys.executable} -m pip install 'headrace[torch]'"


def require_torch(reason: str) -> None:
    """Raises ConfigError with the command that installs torch if it is missing. `reason` says why the kernels cannot
    run the model."""
    if importlib.util.find_spec("torch") is None:
        raise ConfigError(
            f"the model needs torch, which is not installed, because {reason}. Install it: {torch_command()}"
        )
