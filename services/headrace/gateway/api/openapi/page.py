"""Description of the REST API as a page of the console, which can be read without scripts."""

import html
from collections.abc import Mapping
from typing import Any

from headrace.gateway.api.openapi.operation_section import operation_section
from headrace.gateway.api.openapi.schema_fields import field_list, schema_id, type_of

GROUPS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("Text", ("/v1/chat", "/v1/completions", "/tokenize", "/detokenize", "/headrace/streams")),
    ("Responses", ("/v1/responses",)),
    ("Anthropic Messages", ("/v1/messages",)),
    ("Embeddings and ranking", ("/v1/embeddings", "/v1/rerank", "/v1/score", "/v1/moderations")),
    ("Models", ("/v1/models",)),
    ("Files and batches", ("/v1/files", "/v1/batches")),
    ("The platform", ("/headrace",)),
    ("Health, metrics and pages", ("",)),
)
"""Headings, each with the beginnings of its paths. A path stands under the first that fits."""
_PAGES = {
    "chat": "Chat",
    "playground": "Playground",
    "requests": "Requests",
    "fleet": "Fleet",
    "usage": 'Keys<span class="roomy">&nbsp;and usage</span>',
}
_LINKS = "".join(f'<a href="/#/{name}">{title}</a>' for name, title in _PAGES.items())
_HEAD = (
    '<!doctype html><html lang="en"><head><meta charset="utf-8">'
    '<meta name="viewport" content="width=device-width, initial-scale=1">'
    '<meta name="color-scheme" content="light dark"><title>API · Headrace</title>'
    '<link rel="icon" href="/console/icon.svg" type="image/svg+xml">'
    '<link rel="stylesheet" href="/console/console.css"><link rel="stylesheet" href="/console/docs.css">'
    '<script src="/console/theme.js"></script><script type="module" src="/console/docs.js"></script></head><body>'
)
_BAR = (
    '<header class="bar"><a class="skip" href="#main">Skip to the content</a>'
    '<a class="brand" href="/#/chat"><img src="/console/icon.svg" alt="" width="24" height="24">'
    "<span>Headrace</span></a>"
    f'<nav aria-label="Pages">{_LINKS}<a href="/docs" aria-current="page">API</a></nav>'
    '<div class="bar-end"><button type="button" class="icon-button" id="theme-button" aria-label="Color scheme" hidden>'
    "</button></div></header>"
)


def page(document: Mapping[str, Any]) -> str:
    """Writes the page of an OpenAPI document."""
    info, schemas = document["info"], document["components"]["schemas"]
    groups: dict[str, list[str]] = {title: [] for title, _ in GROUPS}
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            groups[_group_of(path)].append(operation_section(method, path, operation, schemas))
    ids = {title: f"group-{number}" for number, title in enumerate(groups)}
    contents = "".join(f'<li><a href="#{ids[title]}">{html.escape(title)}</a></li>' for title in groups)
    return (
        f"{_HEAD}{_BAR}"
        '<main id="main" class="page-docs" tabindex="-1">'
        f'<div class="page-head"><h1>API</h1><p class="muted">Version {html.escape(info["version"])}</p></div>'
        f'<p>{html.escape(info["description"])} For programs: <a href="/openapi.json">openapi.json</a>.</p>'
        f'<nav aria-label="On this page"><ul class="contents">{contents}'
        '<li><a href="#schemas">Schemas</a></li></ul></nav>'
        f"{''.join(_group(title, ids[title], sections) for title, sections in groups.items())}"
        f"{_schemas(schemas)}</main>"
        '<div id="notice" class="notice" role="status" aria-live="polite"></div></body></html>'
    )


def _group_of(path: str) -> str:
    return next(title for title, beginnings in GROUPS if path.startswith(beginnings))


def _group(title: str, identifier: str, sections: list[str]) -> str:
    head = f'<h2 class="section-title" id="{identifier}">{html.escape(title)}</h2>'
    return f'<section class="ops" aria-labelledby="{identifier}">{head}{"".join(sections)}</section>'


def _schemas(schemas: Mapping[str, Any]) -> str:
    sections = [
        f'<details class="panel schema" id="{schema_id(html.escape(name))}">'
        f"<summary><h3>{html.escape(name)}</h3></summary>"
        f"{_content(schema)}</details>"
        for name, schema in sorted(schemas.items())
    ]
    head = '<h2 class="section-title" id="schemas">Schemas</h2>'
    return f'<section class="ops" aria-labelledby="schemas">{head}{"".join(sections)}</section>'


def _content(schema: Mapping[str, Any]) -> str:
    return field_list(schema) if schema.get("properties") else f'<p class="type">{type_of(schema)}</p>'
