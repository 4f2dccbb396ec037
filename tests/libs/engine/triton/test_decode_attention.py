"""Attention of decodes: near the oracle, and the same bits whatever else is in the batch."""

from typing import Any

import pytest
import torch
from tests.libs.engine.triton.interpreter import run_backwards
from torch import Tensor

from headrace.engine.triton.decode_attention import SPLIT_TOKENS, AttentionRule, KvPages, attend

BLOCK_SIZE = 16
LENGTHS = (1, 17, SPLIT_TOKENS, 2 * SPLIT_TOKENS + 5)


def make_cache(kv_head_count: int, head_size: int, kind: torch.dtype) -> KvPages:
    generator = torch.Generator().manual_seed(head_size)
    block_count = sum(-(-length // BLOCK_SIZE) for length in LENGTHS) + 1
    states = torch.randn(2, kv_head_count, block_count, BLOCK_SIZE, head_size, generator=generator)
    if kind.itemsize > 1:
        return KvPages(states.to(kind))
    largest = 127 if kind == torch.int8 else 448
    scales = states.abs().amax(dim=-1) / largest
    scaled = states / scales[..., None]
    return KvPages(scaled.round().to(kind) if kind == torch.int8 else scaled.to(kind), scales)


def make_tables() -> Tensor:
    """Block tables of LENGTHS, in no order, and padded with a block that does not exist."""
    counts = [-(-length // BLOCK_SIZE) for length in LENGTHS]
    blocks = torch.randperm(sum(counts), generator=torch.Generator().manual_seed(3)).split(counts)
    tables = torch.full((len(LENGTHS), max(counts)), 1 << 20, dtype=torch.int32)
    for table, own in zip(tables, blocks, strict=True):
        table[: len(own)] = own
    return tables


def oracle(queries: Tensor, pages: KvPages, tables: Tensor, rule: AttentionRule) -> Tensor:
    states = pages.states.double() if pages.scales is None else pages.states.double() * pages.scales.double()[..., None]
    outputs = []
    for query, table, length in zip(queries.double(), tables, LENGTHS, strict=True):
        blocks = table[: -(-length // BLOCK_SIZE)].long()
        first = 0 if rule.window is None else max(0, length - rule.window)
        keys, values = states[:, :, blocks].flatten(2, 3)[:, :, first:length]
        grouped = query.view(len(keys), -1, query.shape[-1])
        scores = grouped @ keys.transpose(1, 2) * rule.scale
        if rule.soft_cap is not None:
            scores = rule.soft_cap * torch.tanh(scores / rule.soft_cap)
        outputs.append((torch.softmax(scores, dim=-1) @ values).flatten(0, 1))
    return torch.stack(outputs)


@pytest.mark.parametrize(
    ("settings", "heads", "head_size", "kind"),
    [
        ({}, (4, 2), 64, torch.float32),
        ({"window": 24}, (4, 1), 24, torch.float32),
        ({"window": SPLIT_TOKENS + 3, "soft_cap": 5.0}, (4, 4), 16, torch.float32),
        ({}, (8, 1), 80, torch.bfloat16),
        ({}, (4, 2), 64, torch.int8),
        ({"soft_cap": 3.0}, (4, 2), 64, torch.float8_e4m3fn),
    ],
    ids=["grouped", "window", "capped", "bf16", "int8", "fp8"],
)
def test_it_is_the_softmax_over_what_a_query_sees(
    settings: dict[str, Any], heads: tuple[int, int], head_size: int, kind: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    rule, pages, tables = (
        AttentionRule(head_size**-0.5, **settings),
        make_cache(heads[1], head_size, kind),
        make_tables(),
    )
    queries = torch.randn(len(LENGTHS), heads[0], head_size, generator=torch.Generator().manual_seed(1))
    lengths = torch.tensor(LENGTHS, dtype=torch.int32)
    found = attend(queries, pages, tables, lengths, rule)
    assert torch.allclose(found.double(), oracle(queries, pages, tables, rule), rtol=1e-5, atol=1e-5)
    for index, length in enumerate(LENGTHS):
        own = slice(index, index + 1)
        table = tables[own, : -(-length // BLOCK_SIZE)].contiguous()
        assert torch.equal(attend(queries[own], pages, table, lengths[own], rule)[0], found[index])
    run_backwards(monkeypatch)
    assert torch.equal(attend(queries, pages, tables, lengths, rule), found)
