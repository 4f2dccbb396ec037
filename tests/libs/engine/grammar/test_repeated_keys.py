"""Counts of keys that an output may write twice are refused by name."""

import json
from typing import Any

import pytest

from headrace.engine.contract.grammar import Grammar, GrammarKind
from headrace.engine.grammar.grammar_source import write_source
from headrace.errors.tree import Unsupported

ANY = {"type": "object"}
ONE_KEY = {"type": "object", "patternProperties": {"^a$": {"type": "boolean"}}, "additionalProperties": False}


def write(schema: dict[str, Any], kind: GrammarKind = GrammarKind.JSON_SCHEMA) -> str:
    return write_source(Grammar(kind, json.dumps(schema), "response_format"))


@pytest.mark.parametrize(
    "schema",
    [
        ONE_KEY | {"minProperties": 2, "maxProperties": 2},
        ANY | {"minProperties": 2},
        ANY | {"minProperties": 2, "additionalProperties": {"type": "integer"}},
        ANY | {"minProperties": 3, "required": ["a", "b"]},
        {"type": "array", "items": ANY | {"minProperties": 2}},
        {"allOf": [{"minProperties": 2}, ANY]},
        {"$defs": {"d": ANY | {"minProperties": 5}}, "$ref": "#/$defs/d"},
    ],
)
def test_a_count_that_a_repeated_key_would_meet_is_refused(schema: dict[str, Any]) -> None:
    for written, kind in (
        (schema, GrammarKind.JSON_SCHEMA),
        ({"lark": "start: @s", "schemas": {"s": schema}}, GrammarKind.LARK_WITH_SCHEMAS),
    ):
        with pytest.raises(Unsupported, match="minProperties"):
            write(written, kind)


@pytest.mark.parametrize(
    "schema",
    [
        ANY | {"minProperties": 1},
        ANY | {"minProperties": 2, "required": ["a", "b"]},
        ANY | {"properties": {"minProperties": {"type": "integer"}}},
        {"type": "object", "minProperties": 0},
        {"const": {"a": 1}},
    ],
)
def test_other_counts_are_taken(schema: dict[str, Any]) -> None:
    assert write(schema)
