"""Choice among the tools of a request."""

from collections.abc import Sequence

from headrace.errors import InvalidRequest
from headrace.gateway.chat.tools.tool import Tool


def check_tools(tools: Sequence[Tool]) -> None:
    """Raises InvalidRequest for tools that cannot be told apart, or whose arguments are no object."""
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
