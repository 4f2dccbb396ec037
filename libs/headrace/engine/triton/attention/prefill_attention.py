"""Attention of chunks of several tokens over a paged KV cache, tile by tile (Dao, FlashAttention-2, 2023)."""

from collections.abc import Sequence

import torch
import triton
import triton.language as tl
from torch import Tensor

from headrace.engine.triton.attention.attention_rule import AttentionRule
from headrace.engine.triton.attention.attention_tile import SPLIT_TOKENS, add_split, attend_tile, padded, tile_of
from headrace.engine.triton.attention.kv_pages import KvPages

BLOCK_ROWS = 32
"""From 64 rows on, Hopper would multiply by another instruction than for decodes, and round otherwise."""
WARP_COUNT = 8
"""Warps that hold two sums without spilling: of the split, and of those before it."""
STAGE_COUNT = 2


@triton.jit
def prefill_attention_kernel(
    queries,
    states,
    scales,
    tables,
    spans,
    programs,
    outputs,
    scale,
    window,
    soft_cap,
    block_count,
    block_size: tl.constexpr,
    head_size: tl.constexpr,
    share: tl.constexpr,
    padded_head: tl.constexpr,
    has_scales: tl.constexpr,
    has_cap: tl.constexpr,
    split_tokens: tl.constexpr,
    tile: tl.constexpr,
    block_rows: tl.constexpr,
):
    """Attends with `block_rows` queries of one span and one KV head. Grid: blocks of rows, KV heads."""
    place, kv_head, kv_head_count = tl.program_id(0), tl.program_id(1).to(tl.int64), tl.num_programs(1)
    span, first = tl.load(programs + place * 2).to(tl.int64), tl.load(programs + place * 2 + 1)
    first_row, start = tl.load(spans + span * 4).to(tl.int64), tl.load(spans + span * 4 + 1)
    count, table = tl.load(spans + span * 4 + 2), tables + tl.load(spans + span * 4 + 3)
    rows, elements = first + tl.arange(0, block_rows), tl.arange(0, padded_head)
    positions = start + rows // share
    query_rows = ((first_row + rows // share) * kv_head_count + kv_head) * share + rows % share
    query_places = query_rows[:, None] * head_size + elements[None, :]
    is_query = (rows < count * share)[:, None] & (elements < head_size)[None, :]
    query = tl.load(queries + query_places, mask=is_query, other=0.0)
    end = start + tl.minimum(count, (first + block_rows - 1) // share + 1)
    first_seen = tl.maximum(start + first // share + 1 - window, 0)
    key_slot = kv_head * block_count * block_size
    value_slot = key_slot + kv_head_count * block_count * block_size
    largest = tl.full((block_rows,), float("-inf"), tl.float32)
    total = tl.zeros((block_rows,), tl.float32)
    sums = tl.zeros((block_rows, padded_head), tl.float32)
    for split in range(first_seen // split_tokens * split_tokens, end, split_tokens):
        own_largest = tl.full((block_rows,), float("-inf"), tl.float32)
        own_total = tl.zeros((block_rows,), tl.float32)
        own_sums = tl.zeros((block_rows, padded_head), tl.float32)
        for begin in range(tl.maximum(split, first_seen // tile * tile), tl.minimum(split + split_tokens, end), tile):
            tokens = begin + tl.arange(0, tile)
            is_token = (tokens < end) & (tokens >= first_seen)
            blocks = tl.load(table + tokens // block_size, mask=is_token, other=0)
            slots = blocks * block_size + tokens % block_size
            behind = positions[:, None] - tokens[None, :]
            own_largest, own_total, own_sums = attend_tile(
                query,
                states + key_slot * head_size,
                states + value_slot * head_size,
                scales + key_slot,
                scales + value_slot,
                slots,
                is_token,
                (behind >= 0) & (behind < window),
                elements,
                scale,
                soft_cap,
                own_largest,
                own_total,
                own_sums,
                head_size,
                has_scales,
                has_cap,
            )
        largest, total, sums = add_split(largest, total, sums, own_largest, own_total, own_sums)
    numbers = sums / total[:, None]
    tl.store(outputs + query_places, numbers.to(outputs.dtype.element_ty), mask=is_query)


def blocks_of_rows(token_counts: Sequence[int], share: int) -> list[tuple[int, int]]:
    """Lists the programs of a step for each KV head: span, and first of its rows, where `share` rows make a token."""
    return [(span, first) for span, count in enumerate(token_counts) for first in range(0, count * share, BLOCK_ROWS)]


def attend_spans(
    queries: Tensor, pages: KvPages, tables: Tensor, spans: Tensor, blocks: Tensor, rule: AttentionRule
) -> Tensor:
    """Maps contiguous queries [tokens, heads, head] to the same shape and type, each token seeing those before it and
    itself. `tables` int32 [numbers] are the block numbers of all texts, `spans` int32 [spans, 4] first row, first
    position, token count and first block number in `tables`, `blocks` int32 [programs, 2] what `blocks_of_rows` lists.
    Rows of no span stay undefined.

    Order of reduction: tiles and splits as for decodes, see `attend_decodes`. So a token's bits depend neither on the
    chunk that it comes in, nor on the batch. They are those of a decode but for the order within a tile, which a
    compiler lays out by the number of rows.
    """
    _, head_count, head_size = queries.shape
    _, kv_head_count, block_count, block_size, _ = pages.states.shape
    outputs = torch.empty_like(queries)
    prefill_attention_kernel[(len(blocks), kv_head_count)](
        queries,
        pages.states,
        outputs if pages.scales is None else pages.scales,
        tables,
        spans,
        blocks,
        outputs,
        rule.scale,
        rule.token_count,
        rule.soft_cap or 1.0,
        block_count,
        block_size=block_size,
        head_size=head_size,
        share=head_count // kv_head_count,
        padded_head=padded(head_size),
        has_scales=pages.scales is not None,
        has_cap=rule.soft_cap is not None,
        split_tokens=SPLIT_TOKENS,
        tile=tile_of(head_size, queries.dtype),
        block_rows=BLOCK_ROWS,
        num_warps=WARP_COUNT,
        num_stages=STAGE_COUNT,
    )
    return outputs
