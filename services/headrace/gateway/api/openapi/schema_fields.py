"""Fields of JSON schemas as HTML: names, types that lead to their schemas, and meanings."""

import html
import json
from collections.abc import Iterable, Mapping
from typing import Any

_BOUNDS = (
    ("minimum", "≥"),
    ("exclusiveMinimum", ">"),
    ("maximum", "≤"),
    ("exclusiveMaximum", "<"),
    ("minLength", "at least", "characters"),
    ("maxLength", "at most", "characters"),
    ("minItems", "at least", "elements"),
    ("maxItems", "at most", "elements"),
)
Schema = Mapping[str, Any]


def schema_id(name: str) -> str:
    """Returns the id of the place where a schema is described."""
    return f"schema-{name}"


def field_list(schema: Schema) -> str:
    """Lists the fields of an object."""
    required = schema.get("required", [])
    fields = schema.get("properties", {}).items()
    return described_list((name, field, name in required) for name, field in fields)


def described_list(fields: Iterable[tuple[str, Schema, bool]], place: str = "") -> str:
    """Lists fields: name, schema, and whether it is required. `place`: part of a request that they are, for scripts."""
    return f'<dl class="fields">{"".join(_field(name, schema, needed, place) for name, schema, needed in fields)}</dl>'


def _field(name: str, schema: Schema, required: bool, place: str) -> str:
    mark = ' <span class="tag">required</span>' if required else ""
    default = schema.get("default")
    given = "" if default in (None, "", [], {}) else f' <span class="muted">default {_json(default)}</span>'
    data = f' data-in="{place}" data-name="{html.escape(name)}"' if place else ""
    meaning = f"<dd>{html.escape(_plain(schema['description']))}</dd>" if schema.get("description") else ""
    head = f"<dt><code>{html.escape(name)}</code>{mark}</dt>"
    return f'<div{data}>{head}<dd class="type">{type_of(schema)}{given}</dd>{meaning}</div>'


def _plain(text: str) -> str:
    return " ".join(text.split()).replace("`", "")


def _json(value: Any) -> str:
    return f"<code>{html.escape(json.dumps(value, ensure_ascii=False))}</code>"


def type_of(schema: Schema) -> str:
    """Writes the type of a schema in a few words, as HTML."""
    if "$ref" in schema:
        name = html.escape(str(schema["$ref"]).rpartition("/")[2])
        return f'<a href="#{schema_id(name)}">{name}</a>'
    if "anyOf" in schema or "oneOf" in schema:
        members = schema.get("anyOf") or schema["oneOf"]
        return " or ".join(dict.fromkeys(type_of(member) for member in members if member.get("type") != "null"))
    if "enum" in schema or "const" in schema:
        return " or ".join(_json(value) for value in schema.get("enum", [schema.get("const")]))
    if schema.get("type") == "array":
        return f"list of {type_of(schema.get('items', {}))}{_bounds(schema)}"
    if isinstance(schema.get("additionalProperties"), Mapping) and "properties" not in schema:
        return f"object of {type_of(schema['additionalProperties'])}"
    return html.escape(_kinds(schema)) + _bounds(schema)


def _kinds(schema: Schema) -> str:
    kinds = schema.get("type", "any value")
    names = [kinds] if isinstance(kinds, str) else [kind for kind in kinds if kind != "null"]
    return " or ".join("text" if name == "string" else name for name in names)


def _bounds(schema: Schema) -> str:
    found = [_bound(schema[key], *words) for key, *words in _BOUNDS if key in schema]
    return html.escape(f", {', '.join(found)}" if found else "")


def _bound(value: float, sign: str, unit: str = "") -> str:
    """Says a bound, such as `at least 1 element`."""
    return " ".join(filter(None, [sign, str(value), unit.removesuffix("s") if value == 1 else unit]))
