"""Attention of chunks: near the oracle, and the same bits however a text is cut, in any batch, and as a decode."""

from collections.abc import Sequence
from typing import Any

import pytest
import torch
from tests.libs.engine.triton.attention.random_pages import RandomPages, make_pages, make_queries
from tests.libs.engine.triton.interpreter import run_backwards
from torch import Tensor

from headrace.engine.triton.attention.attention_rule import AttentionRule
from headrace.engine.triton.attention.attention_tile import SPLIT_TOKENS
from headrace.engine.triton.attention.decode_attention import attend_decodes
from headrace.engine.triton.attention.prefill_attention import attend_spans, blocks_of_rows

# The interpreter cuts fp32 to bf16 instead of rounding it.
ERRORS = {torch.float32: 1e-5, torch.float16: 4e-3, torch.bfloat16: 4e-2}
Span = tuple[int, int, int]
"""Text, first position and token count."""
CASES = pytest.mark.parametrize(
    ("settings", "heads", "head_size", "kind", "dtype"),
    [
        ({}, (6, 2), 24, torch.float32, torch.float32),
        ({"window": 24}, (4, 1), 16, torch.float32, torch.float32),
        ({"window": SPLIT_TOKENS + 3, "soft_cap": 5.0}, (3, 3), 16, torch.float16, torch.float16),
        ({}, (7, 1), 33, torch.bfloat16, torch.bfloat16),
        ({}, (4, 2), 32, torch.int8, torch.float32),
        ({"soft_cap": 3.0, "window": 40}, (4, 2), 32, torch.float8_e4m3fn, torch.float32),
        ({"sinks": torch.tensor([0.5, -3.0, 2.0, 8.0]), "window": 40}, (4, 2), 16, torch.float32, torch.float32),
    ],
    ids=["grouped", "window", "capped", "bf16", "int8", "fp8", "sinks"],
)


def attend(made: RandomPages, queries: Sequence[Tensor], spans: Sequence[Span], rule: AttentionRule) -> Tensor:
    """Attends with the queries [tokens, heads, head] of each span, whose text's states are all there."""
    rows, first = [], 0
    for text, start, count in spans:
        rows.append((first, start, count, made.first_blocks[text]))
        first += count
    share = queries[0].shape[1] // made.pages.states.shape[1]
    blocks = blocks_of_rows([count for *_, count in spans], share)
    places, programs = (torch.tensor(each, dtype=torch.int32) for each in (rows, blocks))
    return attend_spans(torch.cat(list(queries)), made.pages, made.tables, places, programs, rule)


@CASES
def test_each_token_sees_those_before_it(
    settings: dict[str, Any],
    heads: tuple[int, int],
    head_size: int,
    kind: torch.dtype,
    dtype: torch.dtype,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rule, lengths = AttentionRule(head_size**-0.5, **settings), (SPLIT_TOKENS + 70, 33, 1)
    made = make_pages(lengths, heads[1], head_size, kind)
    spans = [(0, SPLIT_TOKENS - 3, 73), (1, 0, 33), (2, 0, 1)]
    queries = [make_queries(count, heads[0], head_size, dtype) for *_, count in spans]
    found = attend(made, queries, spans, rule)
    expected = [made.attend(text, own, start, rule) for (text, start, _), own in zip(spans, queries, strict=True)]
    assert found.dtype == dtype
    assert torch.allclose(found.double(), torch.cat(expected), rtol=ERRORS[dtype], atol=ERRORS[dtype])
    run_backwards(monkeypatch)
    assert torch.equal(attend(made, queries, spans, rule), found)


@CASES
def test_a_token_has_the_same_bits_in_any_chunk_and_is_near_a_decode(
    settings: dict[str, Any], heads: tuple[int, int], head_size: int, kind: torch.dtype, dtype: torch.dtype
) -> None:
    rule, length = AttentionRule(head_size**-0.5, **settings), SPLIT_TOKENS + 44
    made = make_pages((length, 20), heads[1], head_size, kind)
    queries = make_queries(length, heads[0], head_size, dtype)
    whole = attend(made, [queries], [(0, 0, length)], rule)
    other = make_queries(20, heads[0], head_size, dtype)
    for start, end in ((0, 7), (7, 100), (100, SPLIT_TOKENS + 1), (SPLIT_TOKENS + 1, length)):
        chunk = attend(made, [other, queries[start:end]], [(1, 0, 20), (0, start, end - start)], rule)
        assert torch.equal(chunk[20:], whole[start:end])
    ends = [1, 23, 64, SPLIT_TOKENS, SPLIT_TOKENS + 1, length]
    rows = [end - 1 for end in ends]
    work = made.work(*[0] * len(ends), lengths=ends)
    decoded = attend_decodes(queries[rows], made.pages, work, rule)
    # Decodes sum their splits apart.
    assert torch.allclose(decoded.double(), whole[rows].double(), rtol=ERRORS[dtype], atol=ERRORS[dtype])


def test_programs_cover_every_row_once() -> None:
    assert blocks_of_rows([1, 42, 0, 20], 3) == [(0, 0), (1, 0), (1, 64), (3, 0)]
