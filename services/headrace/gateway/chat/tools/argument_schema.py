"""Schema that the arguments of a call are held to."""

from collections.abc import Mapping
from typing import Any

from headrace.gateway.chat.tools.tool import Tool

_ANY_OBJECT: dict[str, Any] = {"type": "object"}
_KEPT = frozenset({"$ref", "additionalProperties", "const", "enum", "required", "type"})
"""Keywords kept as they are."""
_BOUNDS = frozenset(
    {"exclusiveMaximum", "exclusiveMinimum", "maxItems", "maxLength", "maximum", "minItems", "minLength", "minimum"}
)
_OF_SCHEMAS = frozenset({"$defs", "definitions", "properties"})
_LISTS = frozenset({"anyOf", "prefixItems"})


def argument_schema(tool: Tool) -> dict[str, Any]:
    """Returns the schema that a tool's arguments follow. Unless the tool is strict, it has only keywords that can
    always be followed: others would refuse a request whose author never asked for more than a hint."""
    if tool.is_strict:
        return dict(tool.parameters) or _closed(_ANY_OBJECT)
    found = _simplified(tool.parameters)
    return _closed({**found, "type": "object"})


def _simplified(schema: Any) -> Any:
    if not isinstance(schema, Mapping):
        return schema
    kept: dict[str, Any] = {}
    for key, value in schema.items():
        if key in _OF_SCHEMAS and isinstance(value, Mapping):
            kept[key] = {name: _simplified(inner) for name, inner in value.items()}
        elif key in _LISTS and isinstance(value, list):
            kept[key] = [_simplified(inner) for inner in value]
        elif key == "oneOf" and isinstance(value, list):
            kept["anyOf"] = [_simplified(inner) for inner in value]
        elif key == "items":
            kept[key] = _simplified(value)
        elif key in _KEPT or (key in _BOUNDS and isinstance(value, int | float)):
            kept[key] = value
    return _closed(kept)


def _closed(schema: dict[str, Any]) -> dict[str, Any]:
    """Returns the schema of an object that has no other properties than those described, unless it says that it may."""
    is_object = schema.get("type") == "object" or "properties" in schema
    return {"additionalProperties": False, **schema} if is_object and "properties" in schema else schema
