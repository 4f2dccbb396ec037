"""Body of POST /v1/responses."""

from functools import cached_property
from typing import Annotated, Any, ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Field

from headrace.gateway.api.entry.model_body import ModelBody
from headrace.gateway.api.entry.neutral import Neutral, is_value, never
from headrace.gateway.api.openai.fields.constraints import refused_without
from headrace.gateway.api.openai.fields.tool_fields import MAX_TOOLS
from headrace.gateway.api.openai.responses.response_items import left_out_items
from headrace.gateway.api.openai.responses.response_tools import FunctionTools, ToolList, function_tools
from headrace.gateway.api.openai.schema import MAX_INT32, MAX_LOGPROBS, SaltField, StreamOptions

_STRICT = ConfigDict(strict=True, extra="ignore", protected_namespaces=())
MAX_ITEMS = 10_000


class ChosenTool(BaseModel):
    """One tool, by name."""

    model_config = _STRICT
    type: Literal["function"]
    name: str
    namespace: str | None = None


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
    summary: Literal["auto", "concise", "detailed", "none"] | None = None
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
    tools: ToolList | None = None
    tool_choice: (
        Literal["none", "auto", "required"]
        | Annotated[ChosenTool | AllowedResponseTools, Field(discriminator="type")]
        | None
    ) = None
    parallel_tool_calls: bool | None = None
    max_output_tokens: int | None = Field(default=None, ge=1, le=MAX_INT32)
    temperature: float | None = Field(default=None, ge=0, le=2)
    top_p: float | None = Field(default=None, gt=0, le=1)
    presence_penalty: float | None = Field(default=None, ge=-2, le=2)
    frequency_penalty: float | None = Field(default=None, ge=-2, le=2)
    top_logprobs: int | None = Field(default=None, ge=0, le=MAX_LOGPROBS)
    text: TextField | None = None
    reasoning: ReasoningField | None = None
    include: Annotated[list[str], Field(fail_fast=True)] | None = None
    truncation: Literal["auto", "disabled"] | None = None
    metadata: dict[str, Any] | None = None
    service_tier: Literal["auto", "default", "flex", "scale", "priority", "fast"] | None = None
    safety_identifier: str | None = None
    prompt_cache_key: str | None = None
    cache_salt: SaltField | None = None
    client_metadata: dict[str, Any] | None = None
    """Accepted without effect, as `metadata` is."""

    unsupported: ClassVar[dict[str, Neutral]] = refused_without(
        *("access_programs", "background_options", "conversation", "image", "max_tool_calls", "moderation", "prompt"),
        "prompt_cache_options",
        prompt_cache_retention=is_value("in_memory"),
    )
    dispensable: ClassVar[dict[str, Neutral]] = {"context_management": never}

    @cached_property
    def functions(self) -> FunctionTools:
        """Functions that the model may call. Raises InvalidRequest."""
        return function_tools(self.tools, self.input)

    def left_out(self) -> list[str]:
        """Names the tools and items that only OpenAI's platform knows too."""
        return [*super().left_out(), *self.functions.left_out, *left_out_items(self.input)]
