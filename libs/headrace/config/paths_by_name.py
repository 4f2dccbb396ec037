"""A setting that names several files or folders."""

from pathlib import Path
from typing import Annotated

from pydantic import BeforeValidator


def _split_pairs(value: object) -> object:
    """`name=folder,name=folder` as a mapping."""
    if not isinstance(value, str):
        return value
    pairs = [item.partition("=") for item in value.split(",") if item]
    if any(not name or not folder for name, _, folder in pairs):
        raise ValueError("expected NAME=FOLDER, several separated by commas")
    return {name: folder for name, _, folder in pairs}


PathsByName = Annotated[dict[str, Path], BeforeValidator(_split_pairs)]
"""Written as NAME=FOLDER, several separated by commas."""
