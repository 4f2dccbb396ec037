"""The tokenizer's settings."""

from pathlib import Path
from typing import Annotated

from pydantic import BeforeValidator, Field

from headrace.service import ServiceSettings


def _split_pairs(value: object) -> object:
    """`name=folder,name=folder` as a mapping."""
    if not isinstance(value, str):
        return value
    pairs = [item.partition("=") for item in value.split(",") if item]
    if any(not name or not folder for name, _, folder in pairs):
        raise ValueError("expected NAME=FOLDER, several separated by commas")
    return {name: folder for name, _, folder in pairs}


class TokenizerSettings(ServiceSettings):
    """Settings of the tokenizer service."""

    service_id: str = "tokenizer"
    """Unique name of this process."""
    models: Annotated[dict[str, Path], BeforeValidator(_split_pairs)] = Field(min_length=1)
    """Models to encode for, as NAME=FOLDER, separated by commas."""
    pool_size: int = Field(default=1, ge=1)
    """Processes that encode long texts."""
    inline_characters: int = Field(default=4096, ge=0)
    """Texts up to this long are encoded where they arrive: a trip to another process costs more than they do."""
