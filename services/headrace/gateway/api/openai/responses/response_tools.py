"""Tools of requests of the Responses API: functions, alone and in namespaces, and tools that only OpenAI runs."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from headrace.errors import InvalidRequest
from headrace.gateway.api.entry.body_errors import explain
from headrace.gateway.api.openai.fields.tool_fields import MAX_NAME_LENGTH, MAX_TOOLS, ToolName
from headrace.gateway.chat.tools.tool import Tool

MAX_TIMES = 16
"""Maximum number of times that the items of a request may add as many tools as it may have."""
_SEPARATOR = "__"
_FUNCTION, _NAMESPACE = "function", "namespace"
_ITEMS_WITH_TOOLS = frozenset({"additional_tools", "tool_search_output"})
"""Types of the input items that add tools."""


class ResponseTool(BaseModel):
    model_config = ConfigDict(strict=True, extra="allow", protected_namespaces=())
    type: str
    name: ToolName | None = None
    description: str | None = None
    parameters: dict[str, Any] | None = None
    strict: bool | None = None
    tools: Annotated[list["ResponseTool"], Field(max_length=MAX_TOOLS, fail_fast=True)] | None = None
    """Tools of a namespace."""


ToolList = Annotated[list[ResponseTool], Field(max_length=MAX_TOOLS, fail_fast=True)]
_tool_list = TypeAdapter(ToolList)


@dataclass(frozen=True, slots=True)
class FunctionName:
    """Name of a function, as the client has it."""

    name: str
    namespace: str = ""

    @property
    def whole(self) -> str:
        """Name that the model sees: no two functions of a request share it."""
        if not self.namespace:
            return self.name
        return self.namespace.removesuffix(_SEPARATOR) + _SEPARATOR + self.name


@dataclass(frozen=True, slots=True)
class FunctionTools:
    """Functions of a request, and the tools that it is answered without."""

    functions: dict[str, Tool] = field(default_factory=dict)
    """By the name that the model sees."""
    names: dict[str, FunctionName] = field(default_factory=dict)
    left_out: dict[str, None] = field(default_factory=dict)
    """Names of the others, each once."""

    def find(self, name: str, namespace: str = "") -> str:
        """Returns the name that the model sees of a function that the client names, perhaps without its namespace; or
        the name itself, if there is no such function."""
        whole = FunctionName(name, namespace).whole
        alike = [seen for seen, known in self.names.items() if known.name == name]
        return whole if whole in self.functions or namespace or len(alike) != 1 else alike[0]


def function_tools(tools: Sequence[ResponseTool] | None, items: str | Sequence[dict[str, Any]]) -> FunctionTools:
    """Gathers the functions of a request and of its input items, where a later one of the same name counts. Raises
    InvalidRequest."""
    found = FunctionTools()
    for name, tool in _functions(tools or (), found.left_out):
        if name.whole in found.functions:
            raise InvalidRequest(f"there are several tools of the name {name.whole}", param="tools")
        _add(found, name, tool)
    for name, tool in _functions_of_items(items, found.left_out):
        _add(found, name, tool)
    if len(found.functions) > MAX_TOOLS:
        raise InvalidRequest(f"there are more than {MAX_TOOLS} functions in tools and input", param="tools")
    return found


def _functions_of_items(
    items: str | Sequence[dict[str, Any]], left_out: dict[str, None]
) -> Iterator[tuple[FunctionName, Tool]]:
    count = 0
    for index, item in enumerate(() if isinstance(items, str) else items):
        if item.get("type") in _ITEMS_WITH_TOOLS:
            tools = _given(item.get("tools") or [], index)
            count += sum(1 + len(tool.tools or ()) for tool in tools)
            if count > MAX_TIMES * MAX_TOOLS:
                raise InvalidRequest(f"the input has more than {MAX_TIMES * MAX_TOOLS} tools", param="input")
            yield from _functions(tools, left_out)


def _functions(
    tools: Sequence[ResponseTool], left_out: dict[str, None], namespace: str = ""
) -> Iterator[tuple[FunctionName, Tool]]:
    for given in tools:
        if given.type == _NAMESPACE and not namespace:
            yield from _functions(given.tools or (), left_out, _name_of(given))
        elif given.type == _FUNCTION:
            name = FunctionName(_name_of(given), namespace)
            if len(name.whole) > MAX_NAME_LENGTH:
                raise InvalidRequest(f"the name {name.whole} has more than {MAX_NAME_LENGTH} characters", param="tools")
            yield name, Tool(name.whole, given.description or "", given.parameters or {}, given.strict is True)
        else:
            left_out[f"tools.{given.type}"] = None


def _add(found: FunctionTools, name: FunctionName, tool: Tool) -> None:
    found.functions[name.whole] = tool
    found.names[name.whole] = name


def _name_of(given: ResponseTool) -> str:
    if given.name is None:
        raise InvalidRequest(f"a tool of the type {given.type} has no name", param="tools")
    return given.name


def _given(tools: Any, index: int) -> list[ResponseTool]:
    try:
        return _tool_list.validate_python(tools)
    except ValidationError as error:
        raise InvalidRequest(f"input.{index}.tools: {explain(error).message}", param="input") from None
