"""The tokenizer's settings."""

from pydantic import Field

from headrace.config.paths_by_name import PathsByName
from headrace.service import ServiceSettings


class TokenizerSettings(ServiceSettings):
    """Settings of the tokenizer service."""

    service_id: str = "tokenizer"
    """Unique name of this process."""
    models: PathsByName = Field(min_length=1)
    """Models to encode for, as NAME=FOLDER, separated by commas."""
    pool_size: int = Field(default=1, ge=1)
    """Processes that encode long texts."""
    inline_characters: int = Field(default=4096, ge=0)
    """Texts up to this long are encoded where they arrive: a trip to another process costs more than they do."""
