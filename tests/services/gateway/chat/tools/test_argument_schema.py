"""Schemas of arguments: strict ones as they are, others without what might not be followed."""

from headrace.gateway.chat.tools.argument_schema import argument_schema
from headrace.gateway.chat.tools.tool import Tool

SCHEMA = {
    "type": "object",
    "title": "T",
    "properties": {
        "a": {"type": "string", "pattern": "^(?=x)", "format": "odd", "maxLength": 3},
        "b": {"oneOf": [{"type": "integer"}, {"$ref": "#/$defs/c"}]},
        "d": {"type": "array", "items": {"type": "object", "properties": {"e": {"not": {}}}}},
    },
    "patternProperties": {"^x": {}},
    "$defs": {"c": {"enum": [1, None]}},
    "required": ["a"],
}


def test_a_strict_schema_is_followed_to_the_letter() -> None:
    assert argument_schema(Tool("t", parameters=SCHEMA, is_strict=True)) == SCHEMA


def test_a_hint_keeps_only_what_can_be_followed() -> None:
    assert argument_schema(Tool("t", parameters=SCHEMA)) == {
        "type": "object",
        "properties": {
            "a": {"type": "string", "maxLength": 3},
            "b": {"anyOf": [{"type": "integer"}, {"$ref": "#/$defs/c"}]},
            "d": {
                "type": "array",
                "items": {"type": "object", "properties": {"e": {}}, "additionalProperties": False},
            },
        },
        "$defs": {"c": {"enum": [1, None]}},
        "required": ["a"],
        "additionalProperties": False,
    }


def test_other_properties_are_admitted_where_the_schema_says_so() -> None:
    open_schema = {"type": "object", "properties": {}, "additionalProperties": True}
    assert argument_schema(Tool("t", parameters=open_schema)) == open_schema


def test_without_parameters_there_are_no_arguments() -> None:
    assert argument_schema(Tool("t")) == {"type": "object"}
