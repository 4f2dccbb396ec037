"""The tokenizer's settings."""

from pydantic import Field

from headrace.lifecycle import ServiceSettings
from headrace.settings.paths_by_name import PathsByName


class TokenizerSettings(ServiceSettings):
    """Settings of the tokenizer service."""

    service_id: str = "tokenizer"
    """Unique name of this process."""
    models: PathsByName = Field(min_length=1)
    """Models to encode for, as NAME=FOLDER, separated by commas."""
    chat_templates: PathsByName = Field(default={})
    """Files with Jinja templates that replace those of models, as NAME=FILE, separated by commas."""
    pool_size: int = Field(default=2, ge=1)
    """Maximum number of processes that render conversations and work on long texts. Each holds all models."""
    template_seconds: float = Field(default=2.0, gt=0)
    """Processor time that the chat template of a model may take for one conversation."""
    job_seconds: float = Field(default=30.0, gt=0)
    """Time in which a process must have encoded, rendered or decoded one text. It is ended otherwise."""
    inline_characters: int = Field(default=4096, ge=0)
    """Texts up to this long are encoded and decoded where they arrive, if the expressions of the model's tokenizer are
    known: a trip to another process costs more."""
