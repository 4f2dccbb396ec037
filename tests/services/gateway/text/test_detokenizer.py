"""Text comes out in whole characters, and is the same however the tokens were grouped."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.gateway.text.detokenizer import Detokenizer, Vocabulary

BYTES = Vocabulary((*(bytes([value]) for value in range(256)), b"<end>"), frozenset({256}), False, True)


@pytest.mark.slow
@given(st.text(max_size=30), st.integers(1, 5))
def test_any_text_in_single_bytes(text: str, group: int) -> None:
    detokenizer = Detokenizer(BYTES, True)
    ids = list(text.encode())
    pieces = [detokenizer.push(ids[start : start + group]) for start in range(0, len(ids), group)]
    assert "".join(pieces) + detokenizer.flush() == text
    assert all("\ufffd" not in piece or "\ufffd" in text for piece in pieces)


def test_an_unfinished_character_is_replaced_at_the_end() -> None:
    detokenizer = Detokenizer(BYTES, True)
    assert detokenizer.push([0xE2, 0x82]) == ""
    assert detokenizer.flush() == "\ufffd"


def test_special_tokens_are_hidden_unless_asked_for() -> None:
    assert Detokenizer(BYTES, True).push([65, 256, 66]) == "AB"
    assert Detokenizer(BYTES, False).push([65, 256, 66]) == "A<end>B"


def test_a_leading_space_of_the_encoding_is_dropped_once() -> None:
    vocabulary = Vocabulary((b" a", b" b"), frozenset(), True, False)
    detokenizer = Detokenizer(vocabulary, True)
    assert [detokenizer.push([0]), detokenizer.push([1])] == ["a", " b"]


def test_ids_beyond_the_tokenizer_are_nothing() -> None:
    assert Detokenizer(BYTES, True).push([65, 99_999]) == "A"


def test_a_text_that_goes_on_keeps_its_first_space() -> None:
    vocabulary = Vocabulary((b" a", b" b", b"<s>"), frozenset({2}), True, False)
    assert Detokenizer(vocabulary, True, follows=[2, 0]).push([1]) == " b"
    assert Detokenizer(vocabulary, True, follows=[2]).push([1]) == "b"
    assert Detokenizer(vocabulary, False, follows=[2]).push([1]) == " b"
