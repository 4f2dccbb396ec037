"""LoadedSource that was loaded while a platform ran."""

from pydantic import BaseModel, ConfigDict


class LoadedSource(BaseModel):
    """Sources of a model, as `headrace up` takes them."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    source: str
    """Folder, GGUF file, hub id, or name from the catalogue."""
    draft: str = ""
    """Source of a model that drafts for it. Empty: the usual one, if any."""
    chat_template: str = ""
    """File with a Jinja template that replaces the model's. Empty: the model's own."""
