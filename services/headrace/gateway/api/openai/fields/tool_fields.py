"""Tools and the choice among them, as OpenAI's chat API has them."""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from headrace.gateway.api.entry.mistake import mistake

MAX_TOOLS = 128
MAX_NAME_LENGTH = 128
_STRICT = ConfigDict(strict=True, extra="ignore")
ToolName = Annotated[str, Field(pattern=rf"^[A-Za-z0-9_.:-]{{1,{MAX_NAME_LENGTH}}}$")]


def _function(value: Any) -> Any:
    kind = value.get("type") if isinstance(value, dict) else None
    if kind != "function":
        raise mistake(f"is of the type {kind!r}: only tools of the type function are supported")
    return value


class FunctionDefinition(BaseModel):
    model_config = _STRICT
    name: ToolName
    description: str | None = None
    parameters: dict[str, Any] | None = None
    """JSON schema of the arguments. Unset means that there are none."""
    strict: bool | None = None
    """Whether every keyword of the schema must be followed. Otherwise keywords that cannot be are hints."""


class FunctionTool(BaseModel):
    model_config = _STRICT
    type: Literal["function"]
    function: FunctionDefinition


class FunctionName(BaseModel):
    model_config = _STRICT
    name: str


class NamedTool(BaseModel):
    """One tool, by name."""

    model_config = _STRICT
    type: Literal["function"]
    function: FunctionName


class AllowedTools(BaseModel):
    model_config = _STRICT
    mode: Literal["auto", "required"]
    tools: Annotated[list[NamedTool], Field(min_length=1, max_length=MAX_TOOLS, fail_fast=True)]


class AllowedToolsChoice(BaseModel):
    """Some of the tools, by name."""

    model_config = _STRICT
    type: Literal["allowed_tools"]
    allowed_tools: AllowedTools


ToolsField = Annotated[
    list[Annotated[FunctionTool, BeforeValidator(_function)]], Field(max_length=MAX_TOOLS, fail_fast=True)
]
ToolChoiceField = (
    Literal["none", "auto", "required"] | Annotated[NamedTool | AllowedToolsChoice, Field(discriminator="type")]
)
