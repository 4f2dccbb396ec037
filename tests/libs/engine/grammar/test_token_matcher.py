"""Tokens that a matcher allows, against languages small enough to be written down."""

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from llguidance import LLMatcher, LLTokenizer, TokenizerWrapper

from headrace.engine.contract.grammar import Grammar, GrammarKind
from headrace.engine.grammar.grammar_source import write_source
from headrace.engine.grammar.token_matcher import TokenMatcher
from headrace.engine.step.token_mask import fill_bitmask

EOS = 0
PIECES = [b"", *(bytes([byte]) for byte in b'abc"{}:, 12'), b"ab", b"bc", b"abc", b'{"', b'":', b"12", b"aa", b', "']


class TinyVocabulary:
    """A tokenizer of a few pieces."""

    eos_token_id = EOS
    bos_token_id = None
    tokens = PIECES
    special_token_ids = (EOS,)

    def __call__(self, text: bytes | str) -> list[int]:
        encoded = text.encode() if isinstance(text, str) else text
        return [PIECES.index(bytes([byte])) for byte in encoded if bytes([byte]) in PIECES]


TOKENIZER = LLTokenizer(TokenizerWrapper(TinyVocabulary()), eos_token=EOS)


def make_matcher(grammar: Grammar) -> TokenMatcher:
    matcher = LLMatcher(TOKENIZER, write_source(grammar), log_level=0)
    assert not matcher.is_error(), matcher.get_error()
    return TokenMatcher(matcher)


def allowed(matcher: TokenMatcher) -> set[int]:
    bits = np.unpackbits(fill_bitmask([matcher], len(PIECES)).view(np.uint8), bitorder="little")
    return set(np.flatnonzero(bits[: len(PIECES)]).tolist())


def legal(language: set[bytes], text: bytes) -> set[int]:
    """Tries tokens: those after which some text of the language can still come, and the end where one is complete."""
    going_on = {
        token
        for token, piece in enumerate(PIECES)
        if piece and any(candidate.startswith(text + piece) for candidate in language)
    }
    return going_on | ({EOS} if text in language else set())


def walk(matcher: TokenMatcher, language: set[bytes], output: list[int]) -> int:
    """Compares along every output that can be reached. Returns how many states there were.

    Where only one byte can come next, the matcher may insist on the token that the tokenizer would write.
    """
    text = b"".join(PIECES[token] for token in output)
    expected, found = legal(language, text), allowed(matcher)
    branches = len({PIECES[token][:1] for token in expected}) > 1
    assert found == expected if branches else found and found <= expected, text
    count = 1
    for token in found - {EOS}:
        following = TokenMatcher(matcher.matcher.deep_copy())
        following._followed_count = len(output)
        following.follow([*output, token])
        assert following.error is None
        count += walk(following, language, [*output, token])
    return count


@settings(max_examples=60, deadline=None)
@given(st.sets(st.text("abc1", min_size=1, max_size=5), min_size=1, max_size=6))
def test_a_choice_allows_what_trying_finds(choices: set[str]) -> None:
    grammar = Grammar(GrammarKind.CHOICE, json.dumps(sorted(choices)))
    assert walk(make_matcher(grammar), {choice.encode() for choice in choices}, []) > 1


@pytest.mark.parametrize(
    ("grammar", "language"),
    [
        (Grammar(GrammarKind.REGEX, "a{1,3}b?"), {b"a", b"aa", b"aaa", b"ab", b"aab", b"aaab"}),
        (Grammar(GrammarKind.REGEX, "(ab|c)1"), {b"ab1", b"c1"}),
        (Grammar(GrammarKind.LARK, 'start: "a" x\nx: "b" | "c" "1"'), {b"ab", b"ac1"}),
        (Grammar(GrammarKind.LARK, 'root ::= "a" x\nx ::= "b" | "c" "1"'), {b"ab", b"ac1"}),
    ],
)
def test_each_kind_allows_what_trying_finds(grammar: Grammar, language: set[bytes]) -> None:
    assert walk(make_matcher(grammar), language, []) > 1


def test_a_schema_allows_one_space_between_values_and_no_more() -> None:
    """Whitespace is bounded, so that no output can go on with it for ever."""
    schema = {
        "type": "object",
        "properties": {"a": {"enum": [1]}, "b": {"enum": [2]}},
        "required": ["a", "b"],
        "additionalProperties": False,
    }
    language = {f'{{"a":{x}1,{y}"b":{z}2}}'.encode() for x in ("", " ") for y in ("", " ") for z in ("", " ")}
    assert walk(make_matcher(Grammar(GrammarKind.JSON_SCHEMA, json.dumps(schema))), language, []) >= 20


def test_a_matcher_that_catches_up_allows_the_same_as_one_that_was_there() -> None:
    grammar = Grammar(GrammarKind.JSON_OBJECT)
    prototype, output = make_matcher(grammar), [PIECES.index(piece) for piece in (b'{"', b"abc", b'":', b" ", b"12")]
    steady = prototype.copy()
    for count in range(len(output) + 1):
        steady.follow(output[:count])
        late = prototype.copy()
        late.follow(output[:count])
        assert allowed(late) == allowed(steady)
    assert allowed(prototype) == {PIECES.index(b"{"), PIECES.index(b'{"')}


def test_several_matchers_at_once_allow_what_each_does_alone() -> None:
    matchers = [make_matcher(Grammar(GrammarKind.REGEX, pattern)) for pattern in ("a+", "b|c", "1{2}", "abc")]
    together = fill_bitmask(matchers, len(PIECES))
    for row, matcher in enumerate(matchers):
        assert (together[row] == fill_bitmask([matcher], len(PIECES))[0]).all()


def test_what_the_grammar_does_not_admit_is_an_error_that_stays() -> None:
    matcher = make_matcher(Grammar(GrammarKind.REGEX, "a+"))
    matcher.follow([PIECES.index(b"b")])
    assert matcher.error
    matcher.follow([PIECES.index(b"b"), PIECES.index(b"a")])
    assert matcher.error
