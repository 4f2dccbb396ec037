"""Tells GGUF files from model folders."""

from pathlib import Path


def is_gguf(path: Path) -> bool:
    """Whether a model is a GGUF file rather than a folder."""
    return path.suffix == ".gguf" and path.is_file()
