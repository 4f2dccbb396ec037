"""The description tells the meaning of each field, and its examples are what the endpoints take."""

import json
from typing import Any

import pytest

from headrace.gateway.api.openapi import answers
from headrace.gateway.api.openapi.document import document
from headrace.gateway.api.openapi.examples import EXAMPLES
from headrace.gateway.api.openapi.field_meanings import MEANINGS
from headrace.gateway.api.openapi.operations import OPERATIONS


@pytest.fixture(scope="module")
def described() -> dict[str, Any]:
    return document(OPERATIONS)


def parameters(described: dict[str, Any]) -> list[dict[str, Any]]:
    operations = [one for methods in described["paths"].values() for one in methods.values()]
    return [parameter for one in operations for parameter in one.get("parameters", [])]


def test_each_field_and_parameter_has_a_meaning(described: dict[str, Any]) -> None:
    schemas = described["components"]["schemas"].items()
    bodies = {name: schema for name, schema in schemas if name not in ("Error", "AnthropicError")}
    bare = [
        f"{name}.{field}"
        for name, schema in bodies.items()
        for field, shown in schema.get("properties", {}).items()
        if not shown.get("description")
    ]
    assert bare == []
    assert [one["name"] for one in parameters(described) if not one.get("description")] == []


def test_no_meaning_is_left_over(described: dict[str, Any]) -> None:
    fields = {name for schema in described["components"]["schemas"].values() for name in schema.get("properties", {})}
    forms = {name for operation in OPERATIONS.values() for name in (operation.form or {}).get("properties", {})}
    assert set(MEANINGS) - fields - forms - {one["name"] for one in parameters(described)} == set()


def test_each_body_has_an_example_that_its_endpoint_takes(described: dict[str, Any]) -> None:
    assert set(EXAMPLES) == {place for place, operation in OPERATIONS.items() if operation.body is not None}
    for place, example in EXAMPLES.items():
        body = OPERATIONS[place].body
        assert body is not None
        body.model_validate_json(json.dumps(example))
        method, path = place.split()
        content = described["paths"][path][method.lower()]["requestBody"]["content"]
        assert content["application/json"]["example"] == example


def test_describing_leaves_the_schemas_of_answers_alone(described: dict[str, Any]) -> None:
    assert described
    assert answers.TEXT == {"type": "string"}
    assert answers.COUNT == {"type": "integer", "minimum": 0}


def test_requests_and_history_are_described(described: dict[str, Any]) -> None:
    rows = described["paths"]["/headrace/requests"]["get"]["responses"]["200"]["content"]["application/json"]["schema"]
    assert {"path", "error"} <= set(rows["properties"]["data"]["items"]["properties"])
    history = described["paths"]["/headrace/fleet/history"]["get"]
    assert history["security"] == [{}, {"key": []}]
