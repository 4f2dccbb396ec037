"""Keys of an object that its schema does not list, kept apart from those that it lists.

llguidance 1.9.1 compares a free key with the listed ones as it is spelled, so that it takes `"\\u0061"` beside `"a"`:
the same key twice, the second time with any value. Keys of `patternProperties` it spells in one way, and never as a
listed key. So an object with free keys is written as one whose free keys follow a pattern.
"""

from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from typing import Any

MAX_CHARACTERS = 2000
"""Most characters of all listed keys where the free ones have a schema of their own. Their pattern grows with these."""
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
    """Changes, in place, the objects of a schema that have both listed and free keys. Leaves alone documents in which
    the change could be seen: those with patterns of their own, references into what would change, and objects that
    several descriptions must fit together, as llguidance then demands patterns to be the same."""
    parts = list(_parts(schema))
    if any(part.get(_PATTERNS) or "unevaluatedProperties" in part or _intersects(part) for part in parts):
        return
    if any(_FREE in part["$ref"] for part in parts if isinstance(part.get("$ref"), str)):
        return
    for part in parts:
        listed, free = part.get(_LISTED), part.get(_FREE, True)
        if not listed or not isinstance(listed, dict) or free is False:
            continue
        if free is True or free == {}:
            pattern = f"^[^{_CONTROL}]*$" if _has_control(listed) else ""
        elif sum(map(len, listed)) <= MAX_CHARACTERS:
            pattern = other_keys(list(listed))
        else:
            continue
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
