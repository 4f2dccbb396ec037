"""Packages needed by commands that run the engine in-process."""

import importlib.util
import sys

from headrace.errors import ConfigError

PARTS = ("torch", "safetensors", "tokenizers")


def require_engine_parts() -> None:
    """Raises ConfigError if a package is missing, saying what to install."""
    missing = [name for name in PARTS if importlib.util.find_spec(name) is None]
    if missing:
        command = f"{sys.executable} -m pip install 'headrace[worker,tokenizer,torch]'"
        raise ConfigError(f"{', '.join(missing)} not installed: {command}")
