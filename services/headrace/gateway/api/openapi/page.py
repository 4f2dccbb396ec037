"""Description of the REST API as a page without scripts."""

import html
import json
from collections.abc import Mapping
from typing import Any

_BOUNDS = (("minimum", "≥"), ("exclusiveMinimum", ">"), ("maximum", "≤"))
_STYLE = """
:root { color-scheme: light dark; --line: color-mix(in srgb, currentColor 18%, transparent); }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-weight: 600; } code { font: 14px/1.5 ui-monospace, monospace; }
details { border-top: 1px solid var(--line); padding: .5rem 0; } summary { cursor: pointer; }
summary b { display: inline-block; min-width: 4.5rem; } summary span { opacity: .75; margin-left: 1rem; }
table { border-collapse: collapse; width: 100%; margin: .5rem 0 1rem; }
td, th { text-align: left; vertical-align: top; padding: .25rem 1rem .25rem 0; border-top: 1px solid var(--line); }
""".strip()


def page(document: Mapping[str, Any]) -> str:
    """Writes the page of an OpenAPI document."""
    sections = [
        _operation(method, path, operation, document["components"]["schemas"])
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
    ]
    info = document["info"]
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{info['title']} API</title><style>{_STYLE}</style></head><body>"
        f"<h1>{info['title']} API</h1><p>{html.escape(info['description'])} Version {info['version']}. "
        'For programs: <a href="/openapi.json">openapi.json</a>.</p>'
        f"{''.join(sections)}</body></html>"
    )


def _operation(method: str, path: str, operation: Mapping[str, Any], schemas: Mapping[str, Any]) -> str:
    parts = [f"<summary><b>{method.upper()}</b> <code>{html.escape(path)}</code>"]
    parts.append(f"<span>{html.escape(operation['summary'])}</span></summary>")
    if "parameters" in operation:
        rows = [(each["name"], each["schema"], each.get("required", False)) for each in operation["parameters"]]
        parts.append(_table("Parameters", rows))
    if "requestBody" in operation:
        (content,) = operation["requestBody"]["content"].values()
        body = content["schema"]
        body = schemas[body["$ref"].rpartition("/")[2]] if "$ref" in body else body
        required = body.get("required", [])
        rows = [(field, schema, field in required) for field, schema in body["properties"].items()]
        parts.append(_table("Body", rows))
    return f"<details>{''.join(parts)}</details>"


def _table(title: str, rows: list[tuple[str, Any, bool]]) -> str:
    lines = [
        f"<tr><td><code>{html.escape(name)}</code>{' (required)' if required else ''}</td>"
        f"<td><code>{html.escape(_type(schema))}</code></td></tr>"
        for name, schema, required in rows
    ]
    return f"<table><tr><th>{title}</th><th>Type</th></tr>{''.join(lines)}</table>"


def _type(schema: Mapping[str, Any]) -> str:
    """Names the type of a schema in a few words."""
    if "$ref" in schema:
        return str(schema["$ref"]).rpartition("/")[2]
    if "anyOf" in schema or "oneOf" in schema:
        members = schema.get("anyOf") or schema["oneOf"]
        return " or ".join(dict.fromkeys(_type(member) for member in members if member.get("type") != "null"))
    if "enum" in schema or "const" in schema:
        return " | ".join(json.dumps(value) for value in schema.get("enum", [schema.get("const")]))
    if schema.get("type") == "array":
        return f"list of {_type(schema.get('items', {}))}"
    bounds = [f"{sign} {schema[key]}" for key, sign in _BOUNDS if key in schema]
    return " ".join([str(schema.get("type", "any")), *bounds])
