"""One operation of the description, as HTML."""

import html
import json
import re
from collections.abc import Mapping
from typing import Any

from headrace.gateway.api.openapi.examples import can_try
from headrace.gateway.api.openapi.schema_fields import described_list, field_list, type_of

Json = Mapping[str, Any]


def operation_section(method: str, path: str, operation: Json, schemas: Json) -> str:
    """Writes what is sent, an example, and what is answered, folded below a line that names it."""
    name = html.escape(path)
    verb = method.upper()
    tried = " data-try" if can_try(f"{verb} {path}") else ""
    head = (
        f'<summary><span class="method {method}">{verb}</span> <code>{name}</code> '
        f'<span class="muted">{html.escape(operation["summary"])}</span></summary>'
    )
    parts = [_note(operation), *_parameters(operation), *_body(operation, schemas), _answer(operation)]
    identifier = re.sub(r"\W+", "-", f"{method} {path}").strip("-").lower()
    return (
        f'<details class="panel op" id="{identifier}" data-method="{verb}" data-path="{name}"{tried}>{head}'
        f'<div class="op-body">{"".join(parts)}</div></details>'
    )


def _note(operation: Json) -> str:
    found = ["Needs an API key if the platform requires one." if "security" in operation else "Needs no API key."]
    if "text/event-stream" in operation["responses"]["200"]["content"] and "requestBody" in operation:
        found.append("With stream, the answer comes in pieces.")
    return f'<p class="muted small">{" ".join(found)}</p>'


def _parameters(operation: Json) -> list[str]:
    given = operation.get("parameters", [])
    titles = {"path": "In the path", "query": "After the question mark"}
    found = []
    for place, title in titles.items():
        rows = [
            (one["name"], {"description": one.get("description")} | one["schema"], one.get("required", False))
            for one in given
            if one["in"] == place
        ]
        if rows:
            found.append(f"<h3>{title}</h3>{described_list(rows, place)}")
    return found


def _body(operation: Json, schemas: Json) -> list[str]:
    if "requestBody" not in operation:
        return []
    ((kind, media),) = operation["requestBody"]["content"].items()
    schema = media["schema"]
    schema = schemas[schema["$ref"].rpartition("/")[2]] if "$ref" in schema else schema
    parts = []
    if "example" in media:
        text = html.escape(json.dumps(media["example"], indent=2, ensure_ascii=False), quote=False)
        parts.append(f'<h3>Example</h3><pre class="code example">{text}</pre>')
    parts.append(f"<h3>Body, as {'a form' if 'form' in kind else 'JSON'}</h3>{field_list(schema)}")
    return parts


def _answer(operation: Json) -> str:
    content = operation["responses"]["200"]["content"]
    kind, media = next(iter(content.items()))
    schema = media["schema"]
    if schema.get("properties"):
        return f"<h3>Answer</h3>{field_list(schema)}"
    return f'<h3>Answer</h3><p class="type">{type_of(schema)} <span class="muted">as {html.escape(kind)}</span></p>'
