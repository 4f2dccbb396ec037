"""Messages of a conversation, as OpenAI's chat API has them."""

from typing import Annotated, Any, Literal, get_args

from pydantic import BaseModel, ConfigDict, Field, PlainValidator, model_validator

from headrace.gateway.api.entry.mistake import mistake
from headrace.gateway.api.openai.fields.tool_fields import FunctionName

Role = Literal["system", "developer", "user", "assistant", "tool", "function"]
"""Role of the speaker of a message."""
ROLES: tuple[str, ...] = get_args(Role)
_TEXTS = {"text": "text", "refusal": "refusal"}
"""Types of the parts that are text, and the field of each that holds it."""
_CONTENT = "must be a string or a list of parts"


def _content(value: Any) -> str | None:
    """Returns the text of content, whose parts must all be text."""
    if value is None or isinstance(value, str):
        return value
    if not isinstance(value, list):
        raise mistake(_CONTENT)
    return "".join(map(_part, value)) if value else None


def _part(value: Any) -> str:
    kind = value.get("type") if isinstance(value, dict) else None
    if not isinstance(kind, str):
        raise mistake(_CONTENT + ", each with a type")
    if kind not in _TEXTS:
        raise mistake(f"has a part of the type {kind!r}; the models here read text only")
    text = value.get(_TEXTS[kind])
    if not isinstance(text, str):
        raise mistake(f"has a part of the type {kind!r} without its {_TEXTS[kind]}")
    return text


class TextPart(BaseModel):
    """Part of the content of a message."""

    type: Literal["text"]
    text: str


ContentField = Annotated[str | None, PlainValidator(_content, json_schema_input_type=str | list[TextPart] | None)]


class CalledFunction(FunctionName):
    arguments: str


class CalledTool(BaseModel):
    """A call in an answer of the assistant."""

    model_config = ConfigDict(strict=True, extra="ignore")
    id: str
    type: Literal["function"]
    function: CalledFunction


class Message(BaseModel):
    """One message of a conversation."""

    model_config = ConfigDict(strict=True, extra="allow")
    role: Role
    content: ContentField = None
    name: str | None = None
    tool_calls: Annotated[list[CalledTool], Field(fail_fast=True)] | None = None
    tool_call_id: str | None = None
    refusal: str | None = None
    reasoning: str | None = None
    reasoning_content: str | None = None

    @model_validator(mode="after")
    def _is_complete(self) -> "Message":
        if self.role != "assistant" and self.content is None:
            raise mistake(f"a message of the role {self.role} must have content")
        if self.role == "tool" and not self.tool_call_id:
            raise mistake("a message of the role tool must have the tool_call_id that it answers")
        if self.tool_calls and self.role != "assistant":
            raise mistake(f"a message of the role {self.role} cannot have tool_calls")
        extra = self.model_extra or {}
        for name in ("audio", "function_call"):
            if extra.get(name):
                raise mistake(f"{name} is not supported: use tool_calls and text")
        return self

    @property
    def text(self) -> str:
        """The content, or else the refusal, which a model wrote instead of it."""
        return self.content if self.content is not None else (self.refusal or "")
