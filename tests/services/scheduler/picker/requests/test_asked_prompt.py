"""Prompts are read from the bodies of all APIs, and hashed so that prompts that begin alike begin alike in hashes."""

import json
from typing import Any

import pytest

from headrace.errors import InvalidRequest
from headrace.scheduler.picker.choosing.pick_order import PickOrder
from headrace.scheduler.picker.endpoints.pool_endpoint import BLOCK_TOKENS
from headrace.scheduler.picker.requests.asked_prompt import (
    MAX_PIECES,
    PIECE_BYTES,
    TOKEN_BYTES,
    AskedPrompt,
    read_prompt,
)

TEXT = "All happy families are alike; each unhappy family is unhappy in its own way. " * 20


def read(**asked: Any) -> AskedPrompt:
    return read_prompt(json.dumps({"model": "m", **asked}).encode())


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def shared(one: AskedPrompt, other: AskedPrompt) -> int:
    """Leading pieces that two prompts have in common."""
    pairs = zip(one.chain, other.chain, strict=False)
    return next((count for count, (a, b) in enumerate(pairs) if a != b), min(len(one.chain), len(other.chain)))


def test_a_piece_has_the_tokens_of_a_block() -> None:
    assert PIECE_BYTES == BLOCK_TOKENS * TOKEN_BYTES
    assert PickOrder().max_token_count == AskedPrompt().max_token_count


def test_limits_and_streams_are_read() -> None:
    prompt = read(messages=[user(TEXT)], max_completion_tokens=50, max_tokens=70, stream=True)
    assert (prompt.max_token_count, prompt.is_streamed) == (50, True)
    assert abs(prompt.token_count - len(TEXT) // TOKEN_BYTES) < 5
    for odd in (None, -1, 0, True, "9", 1.5):
        assert read(prompt="x", max_tokens=odd).max_token_count == AskedPrompt().max_token_count


def test_prompts_that_begin_alike_share_pieces() -> None:
    first = read(messages=[user(TEXT)])
    assert shared(first, read(messages=[user(TEXT), user("And then?")])) == len(first.chain) >= 6
    assert shared(first, read(messages=[user(TEXT + "More.")])) == len(first.chain)
    assert shared(first, read(messages=[user("No. " + TEXT)])) == 0


def test_what_a_server_tells_apart_is_told_apart() -> None:
    first = read(messages=[user(TEXT)])
    assert shared(first, read(messages=[user(TEXT)], cache_salt="a")) == 0
    assert shared(first, read(messages=[user(TEXT)], model="n")) == 0
    assert shared(first, read(messages=[user(TEXT)], tools=[{"type": "function"}])) == 0
    assert shared(first, read(messages=[user(TEXT)], temperature=0.5)) == len(first.chain)


@pytest.mark.parametrize(
    "asked",
    [
        {"prompt": TEXT},
        {"prompt": [TEXT, TEXT]},
        {"prompt": list(range(500))},
        {"input": TEXT},
        {"input": [{"role": "user", "content": [{"type": "input_text", "text": TEXT}]}]},
        {"system": TEXT, "messages": []},
        {"messages": [{"role": "user", "content": [{"type": "text", "text": TEXT}]}]},
        {"query": "q", "documents": [TEXT]},
        {"messages": TEXT},
        {"messages": {"a": TEXT}},
    ],
)
def test_every_way_to_ask_has_a_prompt(asked: dict[str, Any]) -> None:
    assert len(read(**asked).chain) >= 6


def test_long_and_odd_prompts_are_bounded() -> None:
    assert len(read(prompt="x" * 1_000_000).chain) == MAX_PIECES
    assert read().token_count == 1
    assert read(prompt="\ud800" * 300).chain


def test_text_that_is_no_object_is_refused() -> None:
    with pytest.raises(InvalidRequest, match="must be a JSON object"):
        read_prompt(b'"text"')
