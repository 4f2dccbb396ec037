"""Rewrites the objects of a JSON schema so that a key is not written twice with different escapes.

A schema lists some keys of an object (`properties`) and may leave others free (`additionalProperties`). llguidance
1.9.1 compares spellings, so beside `"a"` it accepts the free key `"\\u0061"`, which is the same key, with any value.
Keys that match `patternProperties` have only one spelling. Free keys are therefore rewritten as keys that match a
pattern.
"""

from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from typing import Any

MAX_PATTERN_SIZE = 20_000
"""Maximum size of all patterns of a schema together, in characters before escaping. It is 100 keys of 20 characters."""
_LISTED, _FREE, _PATTERNS = "properties", "additionalProperties", "patternProperties"
_SCHEMA = frozenset({_FREE, "contains", "else", "if", "items", "not", "propertyNames", "then", "unevaluatedItems"})
"""Keywords of a schema."""
_SCHEMAS = frozenset({"allOf", "anyOf", "items", "oneOf", "prefixItems"})
"""Keywords of a list of schemas."""
_NAMED_SCHEMAS = frozenset({"$defs", "definitions", "dependentSchemas", _LISTED, _PATTERNS})
"""Keywords of a mapping to schemas."""
_INTERSECTING = ("$ref", "allOf", "anyOf", "oneOf")
_OF_OBJECTS = (_LISTED, _FREE, _PATTERNS)
_CONTROL = "\\x00-\\x1f"


def keep_free_keys_apart(schema: dict[str, Any]) -> None:
    """Rewrites, in place, the objects of a schema that have both listed and free keys. Leaves a schema alone if it has
    patterns of its own, references to the parts to be rewritten, or objects that must match several schemas at once,
    because llguidance requires their patterns to be equal. Leaves objects alone whose patterns would be too large."""
    parts = list(_parts(schema))
    if any(part.get(_PATTERNS) or "unevaluatedProperties" in part or _intersects(part) for part in parts):
        return
    if any(_FREE in part["$ref"] for part in parts if isinstance(part.get("$ref"), str)):
        return
    size_left = MAX_PATTERN_SIZE
    for part in parts:
        listed, free = part.get(_LISTED), part.get(_FREE, True)
        if not listed or not isinstance(listed, dict) or free is False:
            continue
        if free is True or free == {}:
            pattern = f"^[^{_CONTROL}]*$" if _has_control(listed) else ""
        else:
            size = _pattern_size(listed)
            if size > size_left:
                continue
            size_left -= size
            pattern = other_keys(list(listed))
        part |= {_PATTERNS: {pattern: free}, _FREE: False}


def other_keys(names: Sequence[str]) -> str:
    """Returns a pattern of all keys but these names."""
    control = _CONTROL if _has_control(names) else ""
    following = defaultdict[str, set[str]](set, {"": set()})
    for name in (name for name in names if not _has_control([name])):
        following[name]
        for index, character in enumerate(name):
            following[name[:index]].add(character)
    character = f"[^{control}]" if control else "(?s:.)"
    leaving = [_spelled(start) + _none_of(ends, control) for start, ends in following.items()]
    cut = [_spelled(start) for start in sorted(following.keys() - set(names))]
    return f"^(({'|'.join(leaving)}){character}*|{'|'.join(cut)})$" if cut else f"^({'|'.join(leaving)}){character}*$"


def _pattern_size(names: Collection[str]) -> int:
    """Returns the number of characters of all beginnings of the names, each of which the pattern spells."""
    return sum(len(name) * (len(name) + 1) // 2 for name in names)


def _parts(schema: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yields a schema and all schemas in it."""
    rest: list[Any] = [schema]
    while rest:
        part = rest.pop()
        if not isinstance(part, dict):
            continue
        yield part
        for keyword, value in part.items():
            if keyword in _NAMED_SCHEMAS and isinstance(value, dict):
                rest += value.values()
            elif keyword in _SCHEMAS and isinstance(value, list):
                rest += value
            elif keyword in _SCHEMA:
                rest.append(value)


def _intersects(part: dict[str, Any]) -> bool:
    """Whether the objects of a schema must follow two descriptions at once."""
    several = part.get("allOf")
    is_pair = isinstance(several, list) and len(several) > 1
    return is_pair or (any(map(part.__contains__, _INTERSECTING)) and any(map(part.__contains__, _OF_OBJECTS)))


def _has_control(names: Collection[str]) -> bool:
    """Whether a name has a control character. That can be spelled in two ways even by a pattern, so that no free key
    has one then."""
    return any(character < " " for name in names for character in name)


def _none_of(characters: set[str], control: str) -> str:
    excluded = control + "".join(map(_spelled, sorted(characters)))
    return f"[^{excluded}]" if excluded else "(?s:.)"


def _spelled(text: str) -> str:
    """Spells a text in letters and digits that mean themselves in a pattern, and codes."""
    return "".join(each if each.isascii() and each.isalnum() else f"\\x{{{ord(each):x}}}" for each in text)
