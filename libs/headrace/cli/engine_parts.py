"""Packages needed by commands that run the engine in-process."""

import importlib.util
import sys
from collections.abc import Sequence

from headrace.errors import ConfigError

PARTS = ("safetensors", "tokenizers", "numpy", "llguidance", "gguf")
"""Packages of a worker, without torch."""


def missing_parts() -> list[str]:
    """Returns the packages of a worker that are not installed."""
    return [name for name in PARTS if importlib.util.find_spec(name) is None]


def has_engine_parts() -> bool:
    """Whether torch and all packages of a worker are installed."""
    return all(importlib.util.find_spec(name) is not None for name in ("torch", *PARTS))


def require_engine_parts() -> None:
    """Raises ConfigError if torch or a package of a worker is missing, saying what to install."""
    _require(("torch", *PARTS), "worker,tokenizer,torch")


def require_worker_parts() -> None:
    """Raises ConfigError if a package of a worker is missing, saying what to install."""
    _require(PARTS, "worker,tokenizer")


def _require(names: Sequence[str], extras: str) -> None:
    missing = [name for name in names if importlib.util.find_spec(name) is None]
    if missing:
        command = f"{sys.executable} -m pip install 'headrace[{extras}]'"
        raise ConfigError(f"{', '.join(missing)} not installed: {command}")
