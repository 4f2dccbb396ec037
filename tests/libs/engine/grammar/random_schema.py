"""Small random JSON schemas whose outputs are short: every string and array has a bound."""

import random
from typing import Any

WORDS = ["name", "count", "tags", "city", "Größe", "is_open", 'quo"te', "back\\slash", "x-1", ""]


def random_schema(source: random.Random, depth: int = 2) -> dict[str, Any]:
    kinds = ["string", "integer", "number", "boolean", "null", "enum", "const", "pattern", "format", "union"]
    kind = source.choice(kinds + ["object", "array", "tuple"] * 4 if depth else kinds)
    makers = {"object": _object, "array": _array, "tuple": _tuple}
    return makers[kind](source, depth - 1) if kind in makers else _leaf(source, kind)


def _leaf(source: random.Random, kind: str) -> dict[str, Any]:
    low = source.randint(-50, 50)
    leaves: dict[str, dict[str, Any]] = {
        "string": {"type": "string", "minLength": source.randint(0, 2), "maxLength": source.randint(2, 12)},
        "integer": {"type": "integer", "minimum": low, "maximum": low + source.randint(0, 500)},
        # Without a step a number may have digits for ever.
        "number": {"type": "number", "minimum": low, "maximum": low + 3, "multipleOf": 0.5},
        "boolean": {"type": "boolean"},
        "null": {"type": "null"},
        "enum": {"enum": source.sample([1, 2.5, "a", "é\n", None, True, ["x"], {"k": 1}], 3)},
        "const": {"const": source.choice(["fixed", 7, {"a": [1]}])},
        "pattern": {"type": "string", "pattern": source.choice([r"^\d{3}$", "^[a-c]{2,4}$", "^(yes|no)$"])},
        "format": {"type": "string", "format": source.choice(["date", "time", "ipv4", "uuid"])},
        "union": {"anyOf": [{"type": "boolean"}, {"type": "integer", "minimum": 0, "maximum": 9}]},
    }
    return leaves[kind]


def _object(source: random.Random, depth: int) -> dict[str, Any]:
    names = source.sample(WORDS, source.randint(1, 4))
    return {
        "type": "object",
        "properties": {name: random_schema(source, depth) for name in names},
        "required": source.sample(names, source.randint(0, len(names))),
        "additionalProperties": False,
    }


def _array(source: random.Random, depth: int) -> dict[str, Any]:
    low = source.randint(0, 2)
    return {"type": "array", "items": random_schema(source, depth), "minItems": low, "maxItems": low + 2}


def _tuple(source: random.Random, depth: int) -> dict[str, Any]:
    parts = [random_schema(source, depth) for _ in range(2)]
    return {"type": "array", "prefixItems": parts, "items": False, "minItems": len(parts)}
