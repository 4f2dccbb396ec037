"""Attention of decodes: near the oracle, and the same bits whatever else is in the batch."""

from typing import Any

import pytest
import torch
from tests.libs.engine.triton.attention.random_pages import BLOCK_SIZE, make_pages, make_queries
from tests.libs.engine.triton.interpreter import run_backwards

from headrace.engine.triton.attention.attention_rule import AttentionRule
from headrace.engine.triton.attention.attention_tile import SPLIT_TOKENS
from headrace.engine.triton.attention.decode_attention import attend_decodes

LENGTHS = (1, 17, SPLIT_TOKENS, 2 * SPLIT_TOKENS + 5)


@pytest.mark.parametrize(
    ("settings", "heads", "head_size", "kind"),
    [
        ({}, (4, 2), 64, torch.float32),
        ({"window": 24}, (4, 1), 24, torch.float32),
        ({"window": SPLIT_TOKENS + 3, "soft_cap": 5.0}, (4, 4), 16, torch.float32),
        pytest.param({}, (8, 1), 80, torch.bfloat16, marks=pytest.mark.thorough),
        ({}, (4, 2), 64, torch.int8),
        pytest.param({"soft_cap": 3.0}, (4, 2), 64, torch.float8_e4m3fn, marks=pytest.mark.thorough),
    ],
    ids=["grouped", "window", "capped", "bf16", "int8", "fp8"],
)
def test_it_is_the_softmax_over_what_a_query_sees(
    settings: dict[str, Any], heads: tuple[int, int], head_size: int, kind: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    rule, made = AttentionRule(head_size**-0.5, **settings), make_pages(LENGTHS, heads[1], head_size, kind)
    pages, tables = made.pages, made.tables
    queries = make_queries(len(LENGTHS), heads[0], head_size)
    lengths = torch.tensor(LENGTHS, dtype=torch.int32)
    found = attend_decodes(queries, pages, tables, lengths, rule)
    for text, length in enumerate(LENGTHS):
        own = slice(text, text + 1)
        expected = made.attend(text, queries[own], length - 1, rule)[0]
        assert torch.allclose(found[text].double(), expected, rtol=1e-5, atol=1e-5)
        table = tables[own, : -(-length // BLOCK_SIZE)].contiguous()
        assert torch.equal(attend_decodes(queries[own], pages, table, lengths[own], rule)[0], found[text])
    run_backwards(monkeypatch)
    assert torch.equal(attend_decodes(queries, pages, tables, lengths, rule), found)
