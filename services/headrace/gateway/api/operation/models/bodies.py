"""Bodies of requests that change what is served."""

from typing import Annotated, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from headrace.gateway.api.entry.body_errors import explain

NAME = r"^[A-Za-z0-9][A-Za-z0-9._/-]{0,95}$"
Name = Annotated[str, Field(pattern=NAME)]
Source = Annotated[str, Field(min_length=1, max_length=4096)]
B = TypeVar("B", bound=BaseModel)


class LoadBody(BaseModel):
    """Model or adapter to serve, in the body of POST /headrace/models."""

    model_config = ConfigDict(strict=True, extra="forbid")

    name: Name
    """Name under which it is served."""
    source: Source
    """Folder or GGUF file on the platform's machine, hub id of a pulled model, or name from the catalogue."""
    draft: Annotated[str, Field(max_length=4096)] = ""
    """Source of a small model of the same family that drafts for it, or of a draft head."""
    chat_template: Annotated[str, Field(max_length=4096)] = ""
    """File with a Jinja template that replaces the model's, on the platform's machine."""
    adapter_of: Annotated[str, Field(max_length=96)] = ""
    """Model for which `source` is a LoRA adapter. Empty: it is a model itself."""


class AliasBody(BaseModel):
    """Model that answers to a further name, in the body of PUT /headrace/aliases/{name}."""

    model_config = ConfigDict(strict=True, extra="forbid")

    model: Name


class AdapterBody(BaseModel):
    """Adapter to load, in the words of vLLM's /v1/load_lora_adapter."""

    model_config = ConfigDict(strict=True, extra="ignore")

    lora_name: Name
    lora_path: Source
    base_model_name: Annotated[str, Field(max_length=96)] = ""
    """Model that it belongs to. Empty: the only one."""


class AdapterNameBody(BaseModel):
    """Adapter to unload, in the words of vLLM's /v1/unload_lora_adapter."""

    model_config = ConfigDict(strict=True, extra="ignore")

    lora_name: Name


def parse_body(schema: type[B], body: bytes) -> B:
    """Reads a body. Raises InvalidRequest naming the field."""
    try:
        return schema.model_validate_json(body or b"{}")
    except ValidationError as error:
        raise explain(error) from None
