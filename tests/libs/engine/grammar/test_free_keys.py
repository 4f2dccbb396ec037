"""A key that a schema lists is written once, however it is spelled; all other keys may be written as before."""

import json
import random
import re
from typing import Any

import pytest
from llguidance import LLMatcher, LLTokenizer

from headrace.engine.contract.grammar import Grammar, GrammarKind
from headrace.engine.grammar.free_keys import keep_free_keys_apart, other_keys
from headrace.engine.grammar.grammar_source import write_source

TOKENIZER = LLTokenizer("byte")
INTEGER = {"type": "integer"}
OPEN = {"type": "object", "properties": {"a": INTEGER, "ü": INTEGER}}
CONTROL = {"type": "object", "properties": {"a\nb": INTEGER}}
EXTRA = OPEN | {"additionalProperties": {"type": "string"}}


def is_taken(schema: dict[str, Any], text: str) -> bool:
    kind, written = GrammarKind.LARK_WITH_SCHEMAS, {"lark": "start: @s", "schemas": {"s": schema}}
    answers = set()
    for grammar in (Grammar(GrammarKind.JSON_SCHEMA, json.dumps(schema)), Grammar(kind, json.dumps(written))):
        matcher = LLMatcher(TOKENIZER, write_source(grammar), log_level=0)
        assert not matcher.is_error(), matcher.get_error()
        tokens = list(text.encode())
        answers.add(matcher.try_consume_tokens(tokens) == len(tokens) and matcher.is_accepting())
    (answer,) = answers
    return answer


@pytest.mark.parametrize(
    ("schema", "text"),
    [
        (OPEN, r'{"a":1,"\u0061":2}'),
        (OPEN, r'{"\u0061":"x"}'),
        (OPEN, r'{"a":1,"\u00FC":2}'),
        (OPEN | {"additionalProperties": {}}, r'{"a":1,"\u0061":2}'),
        (OPEN | {"additionalProperties": True, "required": ["a"]}, r'{"a":1,"\u0061":2}'),
        (CONTROL, r'{"a\nb":1,"a\u000ab":2}'),
        (CONTROL, r'{"a\u000Ab":"x"}'),
        (EXTRA, r'{"a":1,"\u0061":"x"}'),
        (EXTRA, '{"a":"x"}'),
        ({"type": "array", "items": OPEN}, r'[{"a":1,"\u0061":2}]'),
        ({"$defs": {"d": OPEN}, "$ref": "#/$defs/d"}, r'{"a":1,"\u0061":2}'),
        ({"allOf": [{"$ref": "#/$defs/d"}], "$defs": {"d": OPEN}}, r'{"a":1,"\u0061":3}'),
        (OPEN | {"properties": {"o": OPEN}}, r'{"o":{"a":1,"\u0061":2}}'),
    ],
)
def test_a_listed_key_is_not_written_again(schema: dict[str, Any], text: str) -> None:
    assert not is_taken(schema, text)


@pytest.mark.parametrize(
    ("schema", "text"),
    [
        (OPEN, '{"a":1,"ü":2,"b":{"c":[]},"":3,"ab":4,"\U0001f600":5}'),
        (OPEN, r'{"x\ny":1,"\\":2,"\"":3}'),
        (CONTROL, r'{"a\nb":1,"ab":2}'),
        (EXTRA, r'{"a":1,"b":"x","aa":"y","":"z","x\ny":"","ü2":""}'),
        (OPEN | {"required": ["z"]}, '{"z":"any"}'),
        (OPEN | {"required": ["a", "ü"], "maxProperties": 3}, '{"a":1,"ü":2,"b":3}'),
        ({"const": {"properties": {"a": 1}}}, '{"properties":{"a":1}}'),
        ({"properties": {"properties": {"const": {"a": {}}}}, "required": ["properties"]}, '{"properties":{"a":{}}}'),
        ({"allOf": [OPEN, CONTROL | {"required": ["z"]}]}, '{"a":1,"z":"x"}'),
        ({"allOf": [EXTRA, {"properties": {"b": {"const": "x"}}, "additionalProperties": {}}]}, '{"a":1,"b":"x"}'),
        (OPEN | {"patternProperties": {"^x": {"type": "string"}}}, '{"a":1,"x":"y","z":[]}'),
        (EXTRA | {"properties": {"a": {"$ref": "#/additionalProperties"}}}, '{"a":"x","b":"y"}'),
        (EXTRA | {"properties": {"a" * 2000: INTEGER}}, '{"b":"y"}'),
    ],
)
def test_other_keys_are_free(schema: dict[str, Any], text: str) -> None:
    assert is_taken(schema, text)


def test_the_pattern_of_other_keys_is_exact() -> None:
    source = random.Random(1)
    for _ in range(300):
        names = ["".join(source.choices("ab^.\n", k=source.randint(0, 4))) for _ in range(source.randint(1, 5))]
        # Python spells codes of characters otherwise than Rust, whose pattern this is.
        pattern = re.compile(
            re.sub(r"\\x\{([0-9a-f]+)\}", lambda code: f"\\x{int(code[1], 16):02x}", other_keys(names))
        )
        has_control = any("\n" in name for name in names)
        for _ in range(100):
            key = "".join(source.choices("abc^.\n", k=source.randint(0, 6)))
            is_other = key not in names and not (has_control and "\n" in key)
            assert bool(pattern.fullmatch(key)) == is_other, (names, key)


def test_large_schemas_get_small_patterns() -> None:
    """A pattern grows with the square of a key's length: a body of megabytes must not become one of gigabytes."""
    long = {f"o{number}": EXTRA | {"properties": {"é" * 190: INTEGER}} for number in range(2000)}
    schema = {"type": "object", "properties": long, "additionalProperties": False}
    before = len(json.dumps(schema))
    keep_free_keys_apart(schema)
    rewritten = [part for part in schema["properties"].values() if "patternProperties" in part]  # type: ignore[attr-defined]
    assert len(rewritten) == 1
    assert len(json.dumps(schema)) < before + 300_000
