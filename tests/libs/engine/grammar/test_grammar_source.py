"""Grammars that cannot be followed are refused in words, and none of them brings the process down."""

import json
from typing import Any

import pytest
from llguidance import LLMatcher

from headrace.engine.contract.grammar import Grammar, GrammarKind
from headrace.engine.grammar.grammar_refusal import refusal
from headrace.engine.grammar.grammar_source import MAX_RULE_COUNT, write_source
from headrace.errors.tree import InvalidRequest, Unsupported


def explain(kind: GrammarKind, text: str) -> InvalidRequest:
    """The error that a grammar gets, whoever finds it."""
    grammar = Grammar(kind, text, "response_format")
    try:
        source = write_source(grammar)
    except InvalidRequest as error:
        return error
    explanation = LLMatcher.validate_grammar(source)
    assert explanation, "the grammar is fine"
    return refusal(grammar, explanation)


@pytest.mark.parametrize(
    ("schema", "text"),
    [
        ({"not": {}}, '"not"'),
        ({"type": "array", "uniqueItems": True}, '"uniqueItems"'),
        ({"type": "object", "unevaluatedProperties": False}, '"unevaluatedProperties"'),
        ({"type": "object", "properties": {"a": {"if": {}}}}, '"if"'),
        ({"type": "object", "dependentRequired": {"a": ["b"]}}, '"dependentRequired"'),
        ({"x-guidance": {"lenient": True}, "not": {}}, '"x-guidance"'),
    ],
)
def test_keywords_that_are_not_supported_are_named(schema: dict[str, Any], text: str) -> None:
    error = explain(GrammarKind.JSON_SCHEMA, json.dumps(schema))
    assert isinstance(error, Unsupported)
    assert text in error.message
    assert error.param == "response_format"


@pytest.mark.parametrize(
    ("kind", "text", "part"),
    [
        (GrammarKind.JSON_SCHEMA, "{", "not valid JSON"),
        (GrammarKind.JSON_SCHEMA, "[]", "must be a JSON object"),
        (GrammarKind.JSON_SCHEMA, '{"type": "nope"}', "nope"),
        (GrammarKind.JSON_SCHEMA, '{"type": "string", "format": "nope"}', "nope"),
        (GrammarKind.JSON_SCHEMA, '{"type": "integer", "minimum": 5, "maximum": 3}', "minimum"),
        (GrammarKind.JSON_SCHEMA, '{"$ref": "https://example.org/schema"}', "example.org"),
        (GrammarKind.JSON_SCHEMA, '{"items":' * 5000 + "{}" + "}" * 5000, "recursion"),
        (GrammarKind.JSON_SCHEMA, '{"items":' * 500 + "{}" + "}" * 500, "recursion"),
        (GrammarKind.REGEX, "(?=a)b", "look-ahead"),
        (GrammarKind.REGEX, r"(a)\1", "backreferences"),
        (GrammarKind.REGEX, "[", "unclosed"),
        (GrammarKind.REGEX, "(" * 30_000 + "a" + ")" * 30_000, "regex"),
        (GrammarKind.LARK, "start: missing", "missing"),
        (GrammarKind.LARK, "nonsense", "grammar"),
        (GrammarKind.LARK, "start: " + "(" * 30_000 + '"a"' + ")" * 30_000, "nested"),
        (GrammarKind.LARK, "root ::= " + "(" * 30_000 + '"a"' + ")" * 30_000, "recursion"),
        (GrammarKind.LARK, "start: r0\n" + "".join(f"r{i}: r{i + 1}\n" for i in range(8000)), str(MAX_RULE_COUNT)),
        (GrammarKind.CHOICE, "[]", "array of strings"),
        (GrammarKind.CHOICE, "[1]", "array of strings"),
        (GrammarKind.CHOICE, "no", "choice"),
    ],
)
def test_what_cannot_be_used_is_explained_in_a_line(kind: GrammarKind, text: str, part: str) -> None:
    error = explain(kind, text)
    assert part in error.message
    assert error.param == "response_format"
    assert len(error.message) < 400
    assert "\n" not in error.message


def test_what_only_describes_is_fine() -> None:
    described = {"$schema": "http://json-schema.org/draft-07/schema#", "title": "T", "description": "d", "default": 1}
    assert write_source(Grammar(GrammarKind.JSON_SCHEMA, json.dumps({"type": "integer", "examples": [1]} | described)))


def test_grammars_are_equal_whichever_field_they_came_through() -> None:
    one, other = (Grammar(GrammarKind.REGEX, "a", param) for param in ("guided_regex", "structured_outputs"))
    assert one == other
    assert hash(one) == hash(other)
    assert one != Grammar(GrammarKind.LARK, "a")
