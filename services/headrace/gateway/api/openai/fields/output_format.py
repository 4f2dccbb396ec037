"""Values of the request fields that constrain the form of the output: OpenAI's and vLLM's."""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

MAX_CHOICES = 1000

Schema = dict[str, Any] | str
"""A JSON schema, or the text of one."""
Choices = Annotated[
    list[Annotated[str, Field(min_length=1)]], Field(min_length=1, max_length=MAX_CHOICES, fail_fast=True)
]
_STRICT = ConfigDict(strict=True, extra="forbid", protected_namespaces=())


class TextFormat(BaseModel):
    model_config = _STRICT
    type: Literal["text"]


class JsonObjectFormat(BaseModel):
    model_config = _STRICT
    type: Literal["json_object"]
    content: dict[str, Any] | None = Field(default=None, alias="schema")
    """JSON schema of the object, as llama.cpp takes it."""


class NamedSchema(BaseModel):
    model_config = _STRICT
    name: str
    description: str | None = None
    content: dict[str, Any] | None = Field(default=None, alias="schema")
    """JSON schema of the output. Unset admits any JSON object."""
    strict: bool | None = None
    """Accepted without effect: every output follows the schema."""


class JsonSchemaFormat(BaseModel):
    model_config = _STRICT
    type: Literal["json_schema"]
    json_schema: NamedSchema


ResponseFormatField = Annotated[TextFormat | JsonObjectFormat | JsonSchemaFormat, Field(discriminator="type")]


class StructuredOutputs(BaseModel):
    """vLLM's `structured_outputs`: exactly one of these."""

    model_config = _STRICT
    json_schema: Schema | None = Field(default=None, alias="json")
    json_object: bool | None = None
    regex: str | None = None
    choice: Choices | None = None
    grammar: str | None = None
