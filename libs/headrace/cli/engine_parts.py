"""Packages needed by commands that run the engine in-process."""

import importlib.util
import sys

from headrace.errors import ConfigError

PARTS = ("safetensors", "tokenizers", "numpy", "llguidance", "gguf")
"""Packages of a worker, without torch."""


def missing_parts() -> list[str]:
    """Returns the packages of a worker that are not installed."""
    return [name for name in PARTS if importlib.util.find_spec(name) is None]


def require_engine_parts() -> None:
    """Raises ConfigError if a package is missing, saying what to install."""
    missing = [name for name in ("torch", *PARTS) if importlib.util.find_spec(name) is None]
    if missing:
        command = f"{sys.executable} -m pip install 'headrace[worker,tokenizer,torch]'"
        raise ConfigError(f"{', '.join(missing)} not installed: {command}")
