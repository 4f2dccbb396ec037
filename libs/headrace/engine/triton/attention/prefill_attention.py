"""Attention of chunks of several tokens over a paged KV cache, tile by tile (Dao, FlashAttention-2, 2023)."""

from collections.abc import Sequence

import torch
import triton
import triton.language as tl
from torch import Tensor

from headrace.engine.triton.attention.attention_rule import AttentionRule
from headrace.engine.triton.attention.attention_tile import LOG2_E, attend_tile, padded, tile_of
from headrace.engine.triton.attention.kv_pages import KvPages

BLOCK_ROWS = 64


@triton.jit
def attend_tiles(
    tile_begin,
    tile_end,
    seen,
    query,
    table,
    pages,
    elements,
    numbers,
    softmax,
    sizes: tl.constexpr,
    is_whole: tl.constexpr,
):
    """Adds tiles of tokens to `softmax`, its largest scores, sums of weights and weighted sums, and returns it. `seen`:
    positions of the rows, window, and first and last token that any row sees. `pages`: keys, values and their scales.
    `numbers`: scale and soft cap. `sizes`: tile, block, head, and whether there are scales and a cap."""
    tile: tl.constexpr = sizes[0]
    block_size: tl.constexpr = sizes[1]
    positions, window, first_seen, end = seen
    largest, total, sums = softmax
    for start in range(tile_begin, tile_end, tile):
        tokens = start + tl.arange(0, tile)
        behind = positions[:, None] - tokens[None, :]
        is_token = tokens >= 0
        is_seen = is_token[None, :]
        if not is_whole:
            is_token = (tokens < end) & (tokens >= first_seen)
            is_seen = (behind >= 0) & (behind < window)
        slots = tl.load(table + tokens // block_size, mask=is_token, other=0) * block_size + tokens % block_size
        largest, total, sums = attend_tile(
            query,
            pages[0],
            pages[1],
            pages[2],
            pages[3],
            slots,
            is_token,
            is_seen,
            elements,
            numbers[0],
            numbers[1],
            largest,
            total,
            sums,
            sizes[2],
            sizes[3],
            sizes[4],
            is_whole,
        )
    return largest, total, sums


@triton.jit
def prefill_attention_kernel(
    queries,
    states,
    scales,
    tables,
    spans,
    programs,
    outputs,
    sinks,
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
    has_sinks: tl.constexpr,
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
    if has_sinks:
        largest = tl.load(sinks + kv_head * share + rows % share) * LOG2_E
        total += 1.0
    sums = tl.zeros((block_rows, padded_head), tl.float32)
    begin = first_seen // tile * tile
    # Where all rows see all tokens from the first one on, whole tiles need no masks.
    sees_all = start + (first + block_rows - 1) // share < window
    whole_end = tl.where(sees_all, (start + first // share + 1) // tile * tile, begin)
    pages = (
        states + key_slot * head_size,
        states + value_slot * head_size,
        scales + key_slot,
        scales + value_slot,
    )
    sizes: tl.constexpr = (tile, block_size, head_size, has_scales, has_cap)
    seen, numbers, softmax = (positions, window, first_seen, end), (scale, soft_cap), (largest, total, sums)
    softmax = attend_tiles(begin, whole_end, seen, query, table, pages, elements, numbers, softmax, sizes, True)
    softmax = attend_tiles(whole_end, end, seen, query, table, pages, elements, numbers, softmax, sizes, False)
    attended = softmax[2] / softmax[1][:, None]
    tl.store(outputs + query_places, attended.to(outputs.dtype.element_ty), mask=is_query)


def count_warps(head_size: int) -> int:
    """Counts the warps that hold the sums of a block of rows without spilling."""
    return 4 if padded(head_size) <= 128 else 8


def count_stages(dtype: torch.dtype) -> int:
    """Counts the tiles of keys and values that a program has at once: those of fp32 leave sm_89 no room for two."""
    return 1 if dtype is torch.float32 else 2


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

    Order of reduction: tiles of tokens, one after another, counted from the start of the text. So a token's bits depend
    neither on the chunk that it comes in, nor on the batch. Those of a decode, which splits its tokens among programs,
    may differ in the last place.
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
        outputs if rule.sinks is None else rule.sinks,
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
        has_sinks=rule.sinks is not None,
        tile=tile_of(head_size, queries.dtype),
        block_rows=BLOCK_ROWS,
        num_warps=count_warps(head_size),
        num_stages=count_stages(queries.dtype),
    )
    return outputs
