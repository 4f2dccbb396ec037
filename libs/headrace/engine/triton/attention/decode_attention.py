"""Attention of decodes over a paged KV cache, in splits of a fixed number of tokens (Dao et al., Flash-Decoding)."""

import torch
import triton
import triton.language as tl
from torch import Tensor

from headrace.engine.triton.attention.attention_rule import AttentionRule
from headrace.engine.triton.attention.attention_sum import sum_attention
from headrace.engine.triton.attention.attention_tile import SPLIT_TOKENS, attend_tile, padded, tile_of
from headrace.engine.triton.attention.kv_pages import KvPages

STAGE_COUNT = 2
MIN_SHARE = 16
"""Rows of the smallest product on tensor cores: query heads of a KV head are padded to it."""


@triton.jit
def decode_attention_kernel(
    queries,
    states,
    scales,
    tables,
    lengths,
    partials,
    extremes,
    scale,
    window,
    soft_cap,
    table_stride,
    block_count,
    split_count,
    block_size: tl.constexpr,
    head_size: tl.constexpr,
    share: tl.constexpr,
    padded_head: tl.constexpr,
    padded_share: tl.constexpr,
    has_scales: tl.constexpr,
    has_cap: tl.constexpr,
    split_tokens: tl.constexpr,
    tile: tl.constexpr,
):
    """Attends with the query heads of one KV head to one split. Grid: sequences, KV heads, splits."""
    sequence, kv_head, split = tl.program_id(0).to(tl.int64), tl.program_id(1).to(tl.int64), tl.program_id(2)
    kv_head_count = tl.num_programs(1)
    length = tl.load(lengths + sequence)
    heads, elements = tl.arange(0, padded_share), tl.arange(0, padded_head)
    is_head, is_element = heads < share, elements < head_size
    query_rows = (sequence * kv_head_count + kv_head) * share + heads
    is_query = is_head[:, None] & is_element[None, :]
    query = tl.load(queries + query_rows[:, None] * head_size + elements[None, :], mask=is_query, other=0.0)
    first_seen = tl.maximum(length - window, 0)
    begin = tl.maximum(split * split_tokens, first_seen // tile * tile)
    end = tl.minimum((split + 1) * split_tokens, length)
    key_slot = kv_head * block_count * block_size
    value_slot = key_slot + kv_head_count * block_count * block_size
    largest = tl.full((padded_share,), float("-inf"), tl.float32)
    total = tl.zeros((padded_share,), tl.float32)
    sums = tl.zeros((padded_share, padded_head), tl.float32)
    for start in range(begin, end, tile):
        tokens = start + tl.arange(0, tile)
        is_seen = (tokens < length) & (tokens >= first_seen)
        blocks = tl.load(tables + sequence * table_stride + tokens // block_size, mask=is_seen, other=0)
        slots = blocks * block_size + tokens % block_size
        largest, total, sums = attend_tile(
            query,
            states + key_slot * head_size,
            states + value_slot * head_size,
            scales + key_slot,
            scales + value_slot,
            slots,
            is_seen,
            is_seen[None, :],
            elements,
            scale,
            soft_cap,
            largest,
            total,
            sums,
            head_size,
            has_scales,
            has_cap,
        )
    rows = query_rows * split_count + split
    tl.store(partials + rows[:, None] * head_size + elements[None, :], sums, mask=is_query)
    tl.store(extremes + rows * 2, largest, mask=is_head)
    tl.store(extremes + rows * 2 + 1, total, mask=is_head)


def count_warps(head_size: int) -> int:
    """Counts the warps that hold the sums of a KV head's queries without spilling."""
    return 4 if padded(head_size) <= 128 else 8


def attend_decodes(queries: Tensor, pages: KvPages, tables: Tensor, lengths: Tensor, rule: AttentionRule) -> Tensor:
    """Maps contiguous queries [sequences, heads, head] to the same shape and type. `tables` int32 [sequences, blocks]
    are block tables, `lengths` int32 [sequences] count the tokens that are there, at least one.

    Order of reduction: tiles of tokens within splits of 256, both counted from the start of the text, then the splits
    that hold a token, one after another. So no sequence's bits depend on another's length, or on the number of
    them.
    """
    sequence_count, head_count, head_size = queries.shape
    _, kv_head_count, block_count, block_size, _ = pages.states.shape
    share = head_count // kv_head_count
    split_count = triton.cdiv(tables.shape[1] * block_size, SPLIT_TOKENS)
    rows = sequence_count, head_count, split_count
    partials = torch.empty((*rows, head_size), device=queries.device)
    extremes = torch.empty((*rows, 2), device=queries.device)
    decode_attention_kernel[(sequence_count, kv_head_count, split_count)](
        queries,
        pages.states,
        partials if pages.scales is None else pages.scales,
        tables,
        lengths,
        partials,
        extremes,
        rule.scale,
        2**30 if rule.window is None else rule.window,
        rule.soft_cap or 1.0,
        tables.stride(0),
        block_count,
        split_count,
        block_size=block_size,
        head_size=head_size,
        share=share,
        padded_head=padded(head_size),
        padded_share=max(MIN_SHARE, triton.next_power_of_2(share)),
        has_scales=pages.scales is not None,
        has_cap=rule.soft_cap is not None,
        split_tokens=SPLIT_TOKENS,
        tile=tile_of(head_size, queries.dtype),
        num_warps=count_warps(head_size),
        num_stages=STAGE_COUNT,
    )
    return sum_attention(partials, extremes, lengths, SPLIT_TOKENS, queries.dtype)
