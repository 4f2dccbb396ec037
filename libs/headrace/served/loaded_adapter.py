"""LoadedAdapter that was loaded while a platform ran."""

from pydantic import BaseModel, ConfigDict


class LoadedAdapter(BaseModel):
    """LoRA adapter of a model."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    model: str
    """Name of the model that it belongs to."""
    source: str
    """Folder, as PEFT saves it."""
