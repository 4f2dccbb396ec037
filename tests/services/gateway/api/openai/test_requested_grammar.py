"""Grammars that a body asks for, through whichever field, and what is refused before any worker sees it."""

import json
from typing import Any

import pytest

from headrace.errors import InvalidRequest
from headrace.gateway.api.entry.model_body import parse
from headrace.gateway.api.openai.requested_grammar import MAX_GRAMMAR_BYTES, check_grammar, requested_grammar
from headrace.gateway.api.openai.schema import ChatBody
from headrace.gateway.chat.output_grammar import OutputGrammar
from headrace.v1 import generation_pb2 as pb

SCHEMA = {"type": "object", "properties": {"größe": {"type": "integer"}}}


def requested(**fields: Any) -> OutputGrammar | None:
    body = {"model": "m", "messages": [{"role": "user", "content": "hi"}]} | fields
    return requested_grammar(parse(ChatBody, json.dumps(body).encode()))


@pytest.mark.parametrize(
    ("fields", "kind", "param"),
    [
        (
            {
                "response_format": {
                    "type": "json_schema",
                    "json_schema": {"name": "n", "schema": SCHEMA, "strict": True},
                }
            },
            pb.GRAMMAR_KIND_JSON_SCHEMA,
            "response_format",
        ),
        ({"structured_outputs": {"json": SCHEMA}}, pb.GRAMMAR_KIND_JSON_SCHEMA, "structured_outputs"),
        ({"structured_outputs": {"json": json.dumps(SCHEMA)}}, pb.GRAMMAR_KIND_JSON_SCHEMA, "structured_outputs"),
        ({"guided_json": SCHEMA}, pb.GRAMMAR_KIND_JSON_SCHEMA, "guided_json"),
        ({"guided_json": json.dumps(SCHEMA)}, pb.GRAMMAR_KIND_JSON_SCHEMA, "guided_json"),
    ],
)
def test_schemas(fields: dict[str, Any], kind: int, param: str) -> None:
    grammar = requested(**fields)
    assert grammar is not None
    assert (grammar.kind, grammar.parameter) == (kind, param)
    assert json.loads(grammar.text) == SCHEMA


@pytest.mark.parametrize(
    ("fields", "kind", "text"),
    [
        ({"response_format": {"type": "json_object"}}, pb.GRAMMAR_KIND_JSON_OBJECT, ""),
        (
            {"response_format": {"type": "json_schema", "json_schema": {"name": "n"}}},
            pb.GRAMMAR_KIND_JSON_OBJECT,
            "",
        ),
        ({"structured_outputs": {"json_object": True}}, pb.GRAMMAR_KIND_JSON_OBJECT, ""),
        ({"structured_outputs": {"regex": "a+"}}, pb.GRAMMAR_KIND_REGEX, "a+"),
        ({"guided_regex": "a+"}, pb.GRAMMAR_KIND_REGEX, "a+"),
        ({"structured_outputs": {"choice": ["a", "é"]}}, pb.GRAMMAR_KIND_CHOICE, '["a","é"]'),
        ({"guided_choice": ["a", "é"]}, pb.GRAMMAR_KIND_CHOICE, '["a","é"]'),
        ({"structured_outputs": {"grammar": 'start: "a"'}}, pb.GRAMMAR_KIND_LARK, 'start: "a"'),
        ({"guided_grammar": 'start: "a"'}, pb.GRAMMAR_KIND_LARK, 'start: "a"'),
    ],
)
def test_other_kinds(fields: dict[str, Any], kind: int, text: str) -> None:
    grammar = requested(**fields)
    assert grammar is not None
    assert (grammar.kind, grammar.text, grammar.parameter) == (kind, text, next(iter(fields)))


@pytest.mark.parametrize(
    "fields", [{}, {"response_format": {"type": "text"}}, {"response_format": None}, {"guided_json": None}]
)
def test_free_text(fields: dict[str, Any]) -> None:
    assert requested(**fields) is None


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"response_format": {"type": "json_object"}, "guided_regex": "a"}, "one format"),
        ({"structured_outputs": {"regex": "a", "choice": ["a"]}}, "one format"),
        ({"structured_outputs": {}}, "must hold"),
        ({"structured_outputs": {"json_object": False}}, "must hold"),
        ({"structured_outputs": {"whitespace_pattern": " "}}, "whitespace_pattern"),
        ({"response_format": {"type": "structural_tag"}}, "structural_tag"),
        ({"response_format": {"type": "json_schema"}}, "required"),
        ({"response_format": {"type": "json_schema", "json_schema": {"schema": {}}}}, "required"),
        ({"response_format": {"type": "json_schema", "json_schema": {"name": "n", "schema": []}}}, "must be an object"),
        ({"guided_choice": []}, "must not be empty"),
        ({"guided_choice": [""]}, "must not be empty"),
        ({"guided_choice": [1]}, "string"),
        ({"guided_choice": ["a"] * 1001}, "1000"),
        ({"guided_regex": "a" * (MAX_GRAMMAR_BYTES + 1)}, "65536"),
        ({"guided_json": {"description": "é" * 33_000}}, "65536"),
    ],
)
def test_what_is_refused_names_its_field(fields: dict[str, Any], text: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        requested(**fields)
    assert caught.value.param == list(fields)[-1]
    assert text in caught.value.message


def test_a_grammar_that_came_over_grpc_must_have_a_kind() -> None:
    with pytest.raises(InvalidRequest, match="kind") as caught:
        check_grammar(OutputGrammar(pb.GRAMMAR_KIND_UNSPECIFIED, "a"))
    assert caught.value.param == "grammar"
