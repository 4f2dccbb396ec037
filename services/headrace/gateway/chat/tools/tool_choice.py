"""Choice among the tools of a request."""

from collections.abc import Sequence
from typing import Literal

from headrace.errors import InvalidRequest
from headrace.gateway.chat.tools.tool import Tool
from headrace.gateway.chat.tools.tool_use import ToolUse


def agreed_use(
    tools: Sequence[Tool],
    choice: Literal["none", "auto", "required"],
    names: Sequence[str] | None = None,
    *,
    allows_several: bool,
    param: str = "tool_choice",
) -> ToolUse | None:
    """Returns the use that answers may make of tools, or None if they may not call any. `names`: the only tools that
    they may call. Raises InvalidRequest, naming the field `param` where the choice is at fault."""
    check_tools(tools)
    if choice == "none" or (not tools and choice == "auto"):
        return None
    if not tools:
        raise InvalidRequest("tool_choice needs tools: there are none to choose from", param="tool_choice")
    allowed = tools if names is None else chosen(tools, names, param)
    return ToolUse(tuple(allowed), is_required=choice == "required", allows_several=allows_several)


def check_tools(tools: Sequence[Tool]) -> None:
    """Raises InvalidRequest for tools of the same name, or whose arguments are no object."""
    names = [tool.name for tool in tools]
    for tool in tools:
        if names.count(tool.name) > 1:
            raise InvalidRequest(f"there are several tools of the name {tool.name}", param="tools")
        if tool.parameters.get("type", "object") != "object":
            raise InvalidRequest(f"the parameters of the tool {tool.name} must be of the type object", param="tools")


def chosen(tools: Sequence[Tool], names: Sequence[str], param: str) -> list[Tool]:
    """Returns the tools of these names. Raises InvalidRequest, naming the field `param`, for a name that none has."""
    by_name = {tool.name: tool for tool in tools}
    for name in names:
        if name not in by_name:
            raise InvalidRequest(f"{param} names {name}, which is not among the tools", param=param)
    return [by_name[name] for name in names]
