"""One operation of the REST API."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from pydantic import BaseModel

Schema = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Operation:
    """Everything that the description says about a path and a method."""

    summary: str
    answer: Schema
    """JSON schema of the answer."""
    body: type[BaseModel] | None = None
    """Model that checks the body of the request."""
    form: Schema | None = None
    """JSON schema of a body that is a form with a file."""
    needs_folder: bool = False
    """Whether it needs a folder for files, which the gateway may not have."""
    streams: bool = False
    """Whether the answer is server-sent events if the request says `stream`."""
    media_type: str = "application/json"
    query: Mapping[str, Schema] = field(default_factory=dict)
    """Schemas of the parameters, by name."""
    path_schema: Schema = field(default_factory=lambda: {"type": "string", "minLength": 1})
    """Schema of the part of the path that varies."""
    needs_key: bool = True
    errors: Literal["openai", "anthropic"] = "openai"
