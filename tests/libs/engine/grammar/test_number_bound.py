"""Numbers of JSON end: digits are bounded where something else may follow, and only there."""

import json
from typing import Any

import numpy as np
import pytest
from llguidance import LLMatcher, LLTokenizer

from headrace.engine.contract.grammar import Grammar, GrammarKind
from headrace.engine.grammar.grammar_source import write_source
from headrace.engine.grammar.number_bound import MAX_DIGITS, NumberBound, digits_left
from headrace.engine.grammar.token_matcher import TokenMatcher
from headrace.engine.step.token_mask import fill_bitmask

TOKENIZER = LLTokenizer("byte")
SIZE = TOKENIZER.vocab_size
BOUND = NumberBound([bytes([byte]) if byte < 256 else b"" for byte in range(SIZE)])
LIMIT = 200
"""Bytes after which an output counts as endless."""


def greedy(schema: dict[str, Any], wishes: bytes) -> str:
    """Output of a model that at each step writes the first of its wishes that it may, for ever."""
    source = write_source(Grammar(GrammarKind.JSON_SCHEMA, json.dumps(schema)))
    matcher, output = TokenMatcher(LLMatcher(TOKENIZER, source, log_level=0), BOUND), list[int]()
    while len(output) < LIMIT:
        matcher.follow(output)
        bits = np.unpackbits(fill_bitmask([matcher], SIZE).view(np.uint8), bitorder="little")[:SIZE]
        forbidden = ~bits.view(np.bool_)
        matcher.narrow(forbidden)
        allowed = np.flatnonzero(~forbidden)
        output.append(next((wish for wish in wishes if wish in allowed), int(allowed[0])))
        if output[-1] == TOKENIZER.eos_token:
            output.pop()
            break
    return bytes(output).decode()


NUMBERS = [
    {"type": "number"},
    {"type": "integer"},
    {"type": "number", "minimum": 0},
    {"type": ["integer", "null"]},
    {},
    {"anyOf": [{"type": "number"}, {"type": "string"}]},
    {"type": "array", "items": {"type": "number"}, "maxItems": 2, "minItems": 2},
    {"type": "object", "properties": {"a": {"type": "number"}}, "required": ["a"], "additionalProperties": False},
]


@pytest.mark.parametrize("schema", NUMBERS)
@pytest.mark.parametrize("wishes", [b"1", b"0.1", b"1.e", b"1e", b"-1.1"])
def test_a_model_that_loves_digits_ends(schema: dict[str, Any], wishes: bytes) -> None:
    text = greedy(schema, wishes + b"-:, ")
    assert len(text) < LIMIT
    json.loads(text)


def test_all_parts_of_a_number_are_bounded() -> None:
    assert greedy({"type": "number"}, b"1") == f"{'1' * MAX_DIGITS}.{'1' * MAX_DIGITS}E11"
    assert greedy({"type": "number"}, b"1e") == f"{'1' * MAX_DIGITS}e11"


@pytest.mark.parametrize(
    "schema",
    [{"const": 1234567890123456789}, {"enum": [1111111111111111111]}, {"type": "integer", "minimum": 10**17}],
)
def test_numbers_that_must_be_long_are(schema: dict[str, Any]) -> None:
    number = json.loads(greedy(schema, b"1234567890"))
    assert number >= 10**17


def test_digits_in_texts_are_left_alone() -> None:
    text = greedy({"type": "string", "maxLength": 40}, b"1")
    assert json.loads(text) == "1" * 40


@pytest.mark.parametrize(
    ("tail", "left"),
    [
        (b'{"a": ', None),
        (b'{"a": 1', 15),
        (b"[-" + b"1" * 16, 0),
        (b"0.", 16),
        (b"1.5e", 2),
        (b"1e-99", 0),
        (b"a1", None),
    ],
)
def test_the_digits_that_are_left_are_counted(tail: bytes, left: int | None) -> None:
    assert digits_left(tail) == left
