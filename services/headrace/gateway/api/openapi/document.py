"""Description of the REST API as an OpenAPI document (OpenAPI 3.1.0)."""

import re
from collections.abc import Mapping
from copy import deepcopy
from importlib.metadata import version
from typing import Any

from headrace.gateway.api.openapi import answers
from headrace.gateway.api.openapi.examples import EXAMPLES
from headrace.gateway.api.openapi.field_meanings import MEANINGS, add_meanings
from headrace.gateway.api.openapi.operation import Operation

_REFERENCES = "#/components/schemas/{model}"
_PLACEHOLDER = re.compile(r"\{(\w+)\}")
_REFUSALS = {
    400: "The request cannot succeed as it is",
    401: "There is no valid API key",
    403: "The API key does not allow it",
    404: "There is no such model or object",
    405: "The path has other methods",
    413: "The body is too large",
    415: "A page must send JSON",
    429: "A limit of the API key is reached",
    500: "An error of the platform",
    503: "Nobody can serve it now",
}
_OF_WORK = {408: "It waited too long", 504: "Its deadline passed"}
"""Refusals of requests that have a body."""
_WITHOUT_FOLDER = {501: "The gateway keeps no files"}


def document(operations: Mapping[str, Operation]) -> dict[str, Any]:
    """Describes operations, by method and path."""
    schemas: dict[str, Any] = {}
    paths: dict[str, Any] = {}
    for place, operation in operations.items():
        method, path = place.split()
        paths.setdefault(path, {})[method.lower()] = _described(place, operation, schemas)
    for schema in schemas.values():
        add_meanings(schema.get("properties", {}))
    schemas |= {"Error": answers.ERROR, "AnthropicError": answers.ANTHROPIC_ERROR}
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Headrace",
            "version": version("headrace"),
            "description": "OpenAI- and Anthropic-compatible APIs for your own models.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "paths": paths,
        "components": {
            "schemas": schemas,
            "securitySchemes": {"key": {"type": "http", "scheme": "bearer"}},
        },
    }


def _described(place: str, operation: Operation, schemas: dict[str, Any]) -> dict[str, Any]:
    described: dict[str, Any] = {
        "operationId": re.sub(r"\W+", "_", place.lower()).strip("_"),
        "summary": operation.summary,
        "responses": _responses(operation),
    }
    parameters = [
        _parameter(name, "path", operation.path_schema) | {"required": True} for name in _PLACEHOLDER.findall(place)
    ]
    parameters += [_parameter(name, "query", schema) for name, schema in operation.query.items()]
    if parameters:
        described["parameters"] = parameters
    if operation.needs_key:
        described["security"] = [{}, {"key": []}]
    if operation.body is not None:
        schema = operation.body.model_json_schema(ref_template=_REFERENCES)
        schemas |= schema.pop("$defs", {})
        schemas[operation.body.__name__] = schema
        media: dict[str, Any] = {"schema": {"$ref": f"#/components/schemas/{operation.body.__name__}"}}
        if place in EXAMPLES:
            media["example"] = EXAMPLES[place]
        described["requestBody"] = {"required": True, "content": {"application/json": media}}
    if operation.form is not None:
        form = deepcopy(dict(operation.form))
        add_meanings(form["properties"])
        described["requestBody"] = {"required": True, "content": {"multipart/form-data": {"schema": form}}}
    return described


def _parameter(name: str, place: str, schema: Mapping[str, Any]) -> dict[str, Any]:
    described = {"description": MEANINGS[name]} if name in MEANINGS else {}
    return {"name": name, "in": place, "schema": schema} | described


def _responses(operation: Operation) -> dict[str, Any]:
    content: dict[str, Any] = {operation.media_type: {"schema": operation.answer}}
    if operation.streams:
        content["text/event-stream"] = {"schema": answers.EVENT}
    name = "Error" if operation.errors == "openai" else "AnthropicError"
    error = {"application/json": {"schema": {"$ref": f"#/components/schemas/{name}"}}}
    has_body = operation.body is not None or operation.form is not None
    refusals = _REFUSALS | (_OF_WORK if has_body else {}) | (_WITHOUT_FOLDER if operation.needs_folder else {})
    return {
        "200": {"description": operation.summary, "content": content},
        **{str(status): {"description": text, "content": error} for status, text in refusals.items()},
    }
