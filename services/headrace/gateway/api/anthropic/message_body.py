"""Bodies of POST /v1/messages and of its count of tokens."""

from typing import Annotated, Any, ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from headrace.gateway.api.entry.mistake import mistake
from headrace.gateway.api.entry.model_body import ModelBody
from headrace.gateway.api.entry.neutral import Neutral
from headrace.gateway.api.openai.fields.constraints import refused_without
from headrace.gateway.api.openai.fields.tool_fields import MAX_TOOLS, ToolName
from headrace.gateway.api.openai.schema import MAX_INT32

_LOOSE = ConfigDict(strict=True, extra="ignore", protected_namespaces=())
Blocks = str | Annotated[list[dict[str, Any]], Field(fail_fast=True)]
"""Content: a text, or blocks of several types."""


class GivenMessage(BaseModel):
    model_config = _LOOSE
    role: Literal["user", "assistant", "system"]
    content: Blocks


class GivenTool(BaseModel):
    """A tool of the client, or one of another type, which Anthropic's platform would run or knows the schema of."""

    model_config = _LOOSE
    type: str | None = None
    name: ToolName | None = None
    description: str | None = None
    input_schema: dict[str, Any] | None = None
    strict: bool | None = None

    @property
    def is_function(self) -> bool:
        """Whether the request itself says all that there is to know about the tool."""
        return self.type in (None, "custom")

    @model_validator(mode="after")
    def _has_name(self) -> "GivenTool":
        if self.is_function and self.name is None:
            raise mistake("a tool must have a name")
        return self


class GivenToolChoice(BaseModel):
    model_config = _LOOSE
    type: Literal["auto", "any", "tool", "none"]
    name: str | None = None
    disable_parallel_tool_use: bool | None = None


class Thinking(BaseModel):
    model_config = _LOOSE
    type: Literal["enabled", "disabled", "adaptive"]
    budget_tokens: int | None = Field(default=None, ge=0)


class OutputForm(BaseModel):
    model_config = _LOOSE
    type: Literal["json_schema"]
    content: dict[str, Any] = Field(alias="schema")


class OutputConfig(BaseModel):
    model_config = _LOOSE
    format: OutputForm | None = None
    effort: str | None = None


_ALL: tuple[Any, ...] = ("all", {"type": "all"})


def _keeps_all(value: Any) -> bool:
    """Whether a value of `context_management` edits nothing: every message reaches the model here."""
    edits = value.get("edits") if isinstance(value, dict) else value
    if not edits:
        return isinstance(value, dict)
    return isinstance(edits, list) and all(isinstance(edit, dict) and edit.get("keep") in _ALL for edit in edits)


class CountBody(ModelBody):
    """Body of POST /v1/messages/count_tokens."""

    messages: Annotated[list[GivenMessage], Field(min_length=1, fail_fast=True)]
    system: Blocks | None = None
    tools: Annotated[list[GivenTool], Field(max_length=MAX_TOOLS, fail_fast=True)] | None = None
    tool_choice: GivenToolChoice | None = None
    thinking: Thinking | None = None
    output_config: OutputConfig | None = None
    cache_control: dict[str, Any] | None = None
    """Accepted without effect: every prefix is cached."""

    unsupported: ClassVar[dict[str, Neutral]] = refused_without("container", "mcp_servers")
    dispensable: ClassVar[dict[str, Neutral]] = {"context_management": _keeps_all}

    def left_out(self) -> list[str]:
        """Names the tools that only Anthropic's platform runs too."""
        kinds = [f"tools.{tool.type}" for tool in self.tools or () if not tool.is_function]
        return [*super().left_out(), *dict.fromkeys(kinds)]


class MessageBody(CountBody):
    """Body of POST /v1/messages."""

    max_tokens: int = Field(ge=1, le=MAX_INT32)
    stop_sequences: Annotated[list[str], Field(fail_fast=True)] | None = None
    stream: bool | None = None
    temperature: float | None = Field(default=None, ge=0, le=1)
    top_p: float | None = Field(default=None, gt=0, le=1)
    top_k: int | None = Field(default=None, ge=0, le=MAX_INT32)
    metadata: dict[str, Any] | None = None
    service_tier: Literal["auto", "standard_only"] | None = None
