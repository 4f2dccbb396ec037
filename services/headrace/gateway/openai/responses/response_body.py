"""Body of POST /v1/responses."""

from typing import Annotated, Any, ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Field

from headrace.gateway.openai.fields.tool_fields import MAX_TOOLS, ToolName
from headrace.gateway.openai.model_body import ModelBody, Neutral, is_value, never
from headrace.gateway.openai.schema import MAX_INT32, MAX_LOGPROBS, StreamOptions

_STRICT = ConfigDict(strict=True, extra="ignore", protected_namespaces=())
MAX_ITEMS = 10_000


class ResponseTool(BaseModel):
    model_config = _STRICT
    type: str
    name: ToolName | None = None
    description: str | None = None
    parameters: dict[str, Any] | None = None
    strict: bool | None = None


class ChosenTool(BaseModel):
    """One tool, by name."""

    model_config = _STRICT
    type: Literal["function"]
    name: str


class AllowedResponseTools(BaseModel):
    """Some of the tools, by name."""

    model_config = _STRICT
    type: Literal["allowed_tools"]
    mode: Literal["auto", "required"]
    tools: Annotated[list[ChosenTool], Field(min_length=1, max_length=MAX_TOOLS, fail_fast=True)]


class TextForm(BaseModel):
    """Form that the text of the answer must have."""

    model_config = _STRICT
    type: Literal["text", "json_object", "json_schema"]
    name: str | None = None
    content: dict[str, Any] | None = Field(default=None, alias="schema")
    strict: bool | None = None


class TextField(BaseModel):
    model_config = _STRICT
    format: TextForm | None = None
    verbosity: str | None = None


class ReasoningField(BaseModel):
    model_config = _STRICT
    effort: Literal["none", "minimal", "low", "medium", "high", "xhigh", "max"] | None = None
    summary: Literal["auto", "concise", "detailed"] | None = None
    """Accepted without effect: the reasoning itself is returned."""


class ResponseBody(ModelBody):
    """Body of POST /v1/responses."""

    type: Literal["response.create"] | None = None
    """Name of the message over a WebSocket."""
    input: str | Annotated[list[dict[str, Any]], Field(max_length=MAX_ITEMS, fail_fast=True)]
    instructions: str | None = None
    previous_response_id: str | None = None
    store: bool | None = None
    stream: bool | None = None
    background: bool | None = None
    stream_options: StreamOptions | None = None
    tools: Annotated[list[ResponseTool], Field(max_length=MAX_TOOLS, fail_fast=True)] | None = None
    tool_choice: (
        Literal["none", "auto", "required"]
        | Annotated[ChosenTool | AllowedResponseTools, Field(discriminator="type")]
        | None
    ) = None
    parallel_tool_calls: bool | None = None
    max_output_tokens: int | None = Field(default=None, ge=1, le=MAX_INT32)
    temperature: float | None = Field(default=None, ge=0, le=2)
    top_p: float | None = Field(default=None, gt=0, le=1)
    top_logprobs: int | None = Field(default=None, ge=0, le=MAX_LOGPROBS)
    text: TextField | None = None
    reasoning: ReasoningField | None = None
    include: list[str] | None = None
    truncation: Literal["auto", "disabled"] | None = None
    metadata: dict[str, Any] | None = None
    service_tier: Literal["auto", "default", "flex", "scale", "priority", "fast"] | None = None
    safety_identifier: str | None = None
    prompt_cache_key: str | None = None

    unsupported: ClassVar[dict[str, Neutral]] = {
        "access_programs": never,
        "background_options": never,
        "context_management": never,
        "conversation": never,
        "image": never,
        "max_tool_calls": never,
        "moderation": never,
        "prompt": never,
        "prompt_cache_options": never,
        "prompt_cache_retention": is_value("in_memory"),
    }
