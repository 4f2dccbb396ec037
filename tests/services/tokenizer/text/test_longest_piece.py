"""A text that must be too long is refused without being encoded; one that could fit is always encoded."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import AddedToken, Tokenizer, models, normalizers, pre_tokenizers

from headrace.demo_model import CHECKPOINT
from headrace.errors import InvalidRequest
from headrace.tokenizer.servicer import TokenizerServicer
from headrace.tokenizer.text.longest_piece import longest_piece
from headrace.tokenizer.text.text_model import TextModel
from headrace.v1 import tokenizer_pb2 as pb

MODEL = TextModel("headrace-demo", CHECKPOINT)
ALPHABET = pre_tokenizers.ByteLevel.alphabet()


def byte_level(*further: str) -> Tokenizer:
    """Single bytes, and some pieces that nothing leads to."""
    tokenizer = Tokenizer(models.BPE({token: index for index, token in enumerate([*ALPHABET, *further])}, []))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    return tokenizer


def sentence_piece(byte_count: int = 256) -> Tokenizer:
    tokens = ["▁", "a", "▁aaa", *(f"<0x{byte:02X}>" for byte in range(byte_count))]
    tokenizer = Tokenizer(models.BPE({token: index for index, token in enumerate(tokens)}, [], byte_fallback=True))
    tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    return tokenizer


@settings(max_examples=200, deadline=None)
@given(st.text(max_size=300), st.integers(1, 40))
def test_what_is_refused_would_not_have_fitted(text: str, token_count: int) -> None:
    assert MODEL.longest_piece is not None
    if len(text) <= token_count * MODEL.longest_piece:
        MODEL.check_length(text, token_count)
    else:
        with pytest.raises(InvalidRequest, match="shorten it"):
            MODEL.check_length(text, token_count)
        assert len(MODEL.encode(text, add_special_tokens=False)) > token_count


@given(st.text(alphabet="aα ́̓ͅ각\n", max_size=60))
def test_no_token_stands_for_more_than_the_longest_piece(text: str) -> None:
    composing = byte_level("abc")
    composing.normalizer = normalizers.NFC()
    for tokenizer in (composing, byte_level("abc"), sentence_piece()):
        longest = longest_piece(tokenizer)
        assert longest is not None
        assert len(text) <= longest * len(tokenizer.encode(text).ids)


def test_the_longest_piece_is_measured_in_characters() -> None:
    assert longest_piece(byte_level("abcdef")) == 6
    assert longest_piece(sentence_piece()) == 6


def changed(**parts: Any) -> Tokenizer:
    tokenizer = byte_level()
    for name, part in parts.items():
        setattr(tokenizer, name, part)
    return tokenizer


def with_greedy_mark() -> Tokenizer:
    """A tokenizer whose mark takes all blanks that follow along."""
    tokenizer = byte_level()
    tokenizer.add_tokens([AddedToken("<end>", rstrip=True)])
    return tokenizer


def without_a_byte() -> Tokenizer:
    tokenizer = Tokenizer(models.BPE({token: index for index, token in enumerate(ALPHABET[1:])}, []))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    return tokenizer


@pytest.mark.parametrize(
    "tokenizer",
    [
        changed(normalizer=normalizers.Strip()),
        changed(normalizer=normalizers.Replace("ab", "a")),
        changed(normalizer=normalizers.Sequence([normalizers.NFC(), normalizers.NFKC()])),
        changed(pre_tokenizer=pre_tokenizers.Sequence([pre_tokenizers.Whitespace(), pre_tokenizers.ByteLevel()])),
        changed(pre_tokenizer=pre_tokenizers.Split(" ", "removed")),
        with_greedy_mark(),
        without_a_byte(),
        sentence_piece(byte_count=255),
    ],
)
def test_there_is_no_bound_where_text_may_be_dropped(tokenizer: Tokenizer) -> None:
    assert longest_piece(tokenizer) is None


def test_an_encoder_that_drops_blanks_takes_many_of_them(minilm: Path) -> None:
    model = TextModel("minilm", minilm)
    model.check_length(" " * 500_000, 512)
    with pytest.raises(InvalidRequest, match="1000000 characters"):
        model.check_length(" " * 1_000_000, 512)


class NoPool:
    """Stands for the processes that encode long texts."""

    async def encode(self, *_: object) -> list[int]:
        raise AssertionError("it was to be refused")


@pytest.mark.anyio
async def test_megabytes_are_refused_before_they_are_encoded() -> None:
    servicer = TokenizerServicer({"m": MODEL}, NoPool(), 2000)  # type: ignore[arg-type]
    request = pb.EncodeRequest(model="m", context_token_count=512, text="word " * 1_500_000)
    with pytest.raises(InvalidRequest, match="maximum context length is 512 tokens"):
        await servicer.Encode(request, None)  # type: ignore[arg-type]


@pytest.mark.anyio
async def test_a_text_that_could_fit_is_encoded() -> None:
    servicer = TokenizerServicer({"m": MODEL}, NoPool(), 2000)  # type: ignore[arg-type]
    request = pb.EncodeRequest(model="m", text="a text " * 20, context_token_count=20)
    answer = await servicer.Encode(request, None)  # type: ignore[arg-type]
    assert list(answer.token_ids) == MODEL.encode("a text " * 20, add_special_tokens=True)
