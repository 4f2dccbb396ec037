"""Explanations of the errors of a body, in our own words."""

from typing import Any

from pydantic import ValidationError

from headrace.errors import InvalidRequest
from headrace.gateway.api.entry.mistake import MISTAKE

_TEXTS = {
    "bool_type": "must be true or false",
    "dict_type": "must be an object",
    "extra_forbidden": "is not known",
    "finite_number": "must be finite",
    "float_type": "must be a number",
    "greater_than": "must be above {gt}",
    "greater_than_equal": "must be at least {ge}",
    "int_from_float": "must be an integer",
    "int_type": "must be an integer",
    "less_than": "must be below {lt}",
    "less_than_equal": "must be at most {le}",
    "list_type": "must be a list",
    "literal_error": "must be {expected}",
    "model_attributes_type": "must be an object",
    "model_type": "must be an object",
    "string_pattern_mismatch": "must match {pattern}",
    "string_too_long": "must have at most {max_length} characters",
    "string_too_short": "must have at least {min_length} characters",
    "string_type": "must be a string",
    "string_unicode": "must be valid Unicode",
    "too_long": "must have at most {max_length} elements",
    "too_short": "must have at least {min_length} elements",
    "union_tag_invalid": "has the {discriminator} {tag!r}; it must be one of {expected_tags}",
    "union_tag_not_found": "must say its {discriminator}",
}
"""Texts by pydantic's type of an error, which continue the name of the field."""
_BRANCHES = frozenset({"bool", "dict", "float", "int", "list", "none", "str"})
"""Names that pydantic puts into the place of an error for the branches of a union."""


def explain(error: ValidationError) -> InvalidRequest:
    """Explains the first problem, naming the field."""
    first = error.errors(include_url=False, include_input=False)[0]
    place = [str(part) for part in first["loc"] if _is_named(part)]
    field, where = (place[0] if place else None), ".".join(place) or "the body"
    if first["type"] == "missing":
        return InvalidRequest(f"{where} is required", param=field)
    context: dict[str, Any] = {**first.get("ctx", {})}
    if first["type"] == MISTAKE:
        text = str(first["msg"])
        return InvalidRequest(f"{where} {text}" if len(place) == 1 else f"{where}: {text}", param=field)
    text = _text_of(first["type"], context)
    return InvalidRequest(f"{where} {text}", param=field)


def _text_of(kind: str, context: dict[str, Any]) -> str:
    if kind in ("too_short", "string_too_short") and context.get("min_length") == 1:
        return "must not be empty"
    text = _TEXTS.get(kind, "is not valid").format_map(_Quoted(context))
    return text.replace(" 1 elements", " 1 element").replace(" 1 characters", " 1 character")


def _is_named(part: int | str) -> bool:
    return isinstance(part, int) or (part.isidentifier() and part not in _BRANCHES)


class _Quoted(dict[str, Any]):
    """Values of an error; one that is missing is not shown."""

    def __missing__(self, key: str) -> str:
        return "another value"
