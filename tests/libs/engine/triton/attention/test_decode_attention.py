"""Attention of decodes: near the oracle, and the same bits whatever else is in the batch."""

from typing import Any

import numpy as np
import pytest
import torch
from tests.libs.engine.triton.attention.random_pages import make_pages, make_queries
from tests.libs.engine.triton.interpreter import run_backwards

from headrace.engine.triton.attention import decode_attention
from headrace.engine.triton.attention.attention_rule import AttentionRule
from headrace.engine.triton.attention.attention_tile import SPLIT_TOKENS
from headrace.engine.triton.attention.decode_attention import attend_decodes
from headrace.engine.triton.attention.decode_work import DecodeWork, split_decodes

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
        ({"sinks": torch.tensor([0.5, -3.0, 2.0, 8.0]), "window": SPLIT_TOKENS + 3}, (4, 2), 16, torch.float32),
    ],
    ids=["grouped", "window", "capped", "bf16", "int8", "fp8", "sinks"],
)
def test_it_is_the_softmax_over_what_a_query_sees(
    settings: dict[str, Any], heads: tuple[int, int], head_size: int, kind: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    rule, made = AttentionRule(head_size**-0.5, **settings), make_pages(LENGTHS, heads[1], head_size, kind)
    queries = make_queries(len(LENGTHS), heads[0], head_size)
    found = attend_decodes(queries, made.pages, made.work(), rule)
    for text, length in enumerate(LENGTHS):
        own = slice(text, text + 1)
        expected = made.attend(text, queries[own], length - 1, rule)[0]
        assert torch.allclose(found[text].double(), expected, rtol=1e-5, atol=1e-5)
        assert torch.equal(attend_decodes(queries[own], made.pages, made.work(text), rule)[0], found[text])
    run_backwards(monkeypatch)
    assert torch.equal(attend_decodes(queries, made.pages, made.work(), rule), found)


def test_one_program_for_all_splits_gives_the_same_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    """A captured step has as many programs as it was captured with, however many splits there are."""
    rule, made = AttentionRule(0.25), make_pages(LENGTHS, 2, 16, torch.float32)
    queries = make_queries(len(LENGTHS), 4, 16)
    expected = attend_decodes(queries, made.pages, made.work(), rule)
    for count in (1, 6):
        monkeypatch.setattr(decode_attention, "MAX_PROGRAMS", count)
        assert torch.equal(attend_decodes(queries, made.pages, made.work(), rule), expected)


def test_a_long_text_costs_the_others_nothing() -> None:
    """One of 512 splits beside 63 of one split each has 575 of them, not 64 times 512."""
    lengths = np.array([131072, *[100] * 63], np.int32)
    decodes, splits = split_decodes(lengths, np.zeros_like(lengths), SPLIT_TOKENS)
    assert len(splits) == decodes[-1, 2] == 575
    assert splits[:2].tolist() == [[0, 0], [0, 1]]
    assert splits[511:513].tolist() == [[0, 511], [1, 0]]


def test_a_row_of_no_text_is_zero_and_room_for_more_splits_is_not_read() -> None:
    """Rows and splits that a captured step has too many of."""
    rule, made = AttentionRule(0.25), make_pages((20, 40), 2, 16, torch.float32)
    queries = make_queries(2, 4, 16)
    work = made.work(0, 1)
    firsts = np.array([*made.first_blocks, 1 << 20], np.int32)
    numbers, splits = split_decodes(np.array([20, 40, 0], np.int32), firsts, SPLIT_TOKENS)
    assert splits.tolist() == [[0, 0], [1, 0], [2, 0]]
    room = torch.full((3, 2), 1 << 20, dtype=torch.int32)
    more = torch.cat([torch.from_numpy(splits), room])
    roomy = DecodeWork(work.tables, torch.from_numpy(numbers), more, torch.zeros(99, dtype=torch.int32))
    found = attend_decodes(torch.cat([queries, queries[:1]]), made.pages, roomy, rule)
    assert torch.equal(found[:2], attend_decodes(queries, made.pages, work, rule))
    assert (found[2] == 0).all()


def test_counters_are_zero_again() -> None:
    """Each layer of a step, and each replay of a captured one, finds them so."""
    made = make_pages(LENGTHS, 2, 16, torch.float32)
    work, queries = made.work(), make_queries(len(LENGTHS), 4, 16)
    for window in (None, SPLIT_TOKENS + 3, 1):
        attend_decodes(queries, made.pages, work, AttentionRule(0.25, window=window))
        assert (work.counters == 0).all()
