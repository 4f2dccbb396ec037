"""Attention of decodes over a paged KV cache, in splits of a fixed number of tokens (Dao et al., Flash-Decoding)."""

import torch
import triton
import triton.language as tl
from torch import Tensor

from headrace.engine.triton.attention.attention_rule import AttentionRule
from headrace.engine.triton.attention.attention_tile import LOG2_E, SPLIT_TOKENS, attend_tile, padded, tile_of
from headrace.engine.triton.attention.decode_work import DecodeWork
from headrace.engine.triton.attention.kv_pages import KvPages

STAGE_COUNT = 2
MIN_SHARE = 16
"""Rows of the smallest product on tensor cores: query heads of a KV head are padded to it."""
SUM_ROWS = 64
SUM_ELEMENTS = 64
"""Splits times heads, and elements of heads, that are summed at a time: more would take registers that attention
needs, and fewer wait for memory more often."""
MAX_PROGRAMS = 1024
"""Programs that fill a GPU: some eight for each of the 108 to 144 multiprocessors of sm_80, sm_89 and sm_90. Where
there are more splits, each program computes several."""


@triton.jit
def sum_text(
    partials,
    extremes,
    outputs,
    sinks,
    row_step,
    begin,
    end,
    sizes: tl.constexpr,
):
    """Sums splits `begin` to `end` of the heads of one text, some at a time and in order, and writes the quotient, some
    elements at a time. Memory begins with split 0; the next one has its heads `row_step` further. `sizes`: heads, their
    size, the heads padded to a power of two, the splits and elements of a time, and whether each head has a sink."""
    share: tl.constexpr = sizes[0]
    head_size: tl.constexpr = sizes[1]
    padded_share: tl.constexpr = sizes[2]
    sum_splits: tl.constexpr = sizes[3]
    sum_elements: tl.constexpr = sizes[4]
    has_sinks: tl.constexpr = sizes[5]
    heads = tl.arange(0, padded_share)
    is_head = heads < share
    for start in range(0, head_size, sum_elements):
        elements = start + tl.arange(0, sum_elements)
        is_element = elements < head_size
        largest = tl.full((padded_share,), float("-inf"), tl.float32)
        total = tl.zeros((padded_share,), tl.float32)
        if has_sinks:
            largest = tl.load(sinks + heads, mask=is_head, other=0.0) * LOG2_E
            total += 1.0
        sums = tl.zeros((padded_share, sum_elements), tl.float32)
        # Counted from the start of the text: what lies before the window changes no other's place.
        for first in range(begin // sum_splits * sum_splits, end, sum_splits):
            splits = first + tl.arange(0, sum_splits)
            rows = splits[:, None] * row_step + heads[None, :]
            is_row = ((splits >= begin) & (splits < end))[:, None] & is_head[None, :]
            # What other programs have written is not in this multiprocessor's cache, or is stale there.
            own_largest = tl.load(extremes + rows * 2, mask=is_row, other=float("-inf"), cache_modifier=".cg")
            own_total = tl.load(extremes + rows * 2 + 1, mask=is_row, other=0.0, cache_modifier=".cg")
            places = rows[:, :, None] * head_size + elements[None, None, :]
            is_summed = is_row[:, :, None] & is_element[None, None, :]
            own = tl.load(partials + places, mask=is_summed, other=0.0, cache_modifier=".cg")
            higher = tl.maximum(largest, tl.max(own_largest, axis=0))
            origin = tl.where(higher == float("-inf"), 0.0, higher)
            shrink, own_shrink = tl.exp2(largest - origin), tl.exp2(own_largest - origin[None, :])
            total = total * shrink + tl.sum(own_total * own_shrink, axis=0)
            sums = sums * shrink[:, None] + tl.sum(own * own_shrink[:, :, None], axis=0)
            largest = higher
        # The row of no text has no sum.
        numbers = sums / tl.where(total > 0, total, 1.0)[:, None]
        places = heads[:, None] * head_size + elements[None, :]
        tl.store(outputs + places, numbers.to(outputs.dtype.element_ty), mask=is_head[:, None] & is_element[None, :])


@triton.jit(do_not_specialize=["sequence_count"])
def decode_attention_kernel(
    queries,
    states,
    scales,
    tables,
    decodes,
    splits,
    counters,
    partials,
    extremes,
    outputs,
    sinks,
    scale,
    window,
    soft_cap,
    block_count,
    sequence_count,
    block_size: tl.constexpr,
    head_size: tl.constexpr,
    share: tl.constexpr,
    padded_head: tl.constexpr,
    padded_share: tl.constexpr,
    has_scales: tl.constexpr,
    has_cap: tl.constexpr,
    split_tokens: tl.constexpr,
    summed_share: tl.constexpr,
    sum_splits: tl.constexpr,
    sum_elements: tl.constexpr,
    has_sinks: tl.constexpr,
    tile: tl.constexpr,
):
    """Attends with the query heads of one KV head to one split after another. The program that is the last to finish a
    split of a text sums them all. Grid: programs, KV heads."""
    kv_head, kv_head_count = tl.program_id(1).to(tl.int64), tl.num_programs(1)
    heads, elements = tl.arange(0, padded_share), tl.arange(0, padded_head)
    is_head = heads < share
    is_query = is_head[:, None] & (elements < head_size)[None, :]
    key_slot = kv_head * block_count * block_size
    value_slot = key_slot + kv_head_count * block_count * block_size
    for place in range(tl.program_id(0), tl.load(decodes + sequence_count * 3 + 2), tl.num_programs(0)):
        sequence, split = tl.load(splits + place * 2).to(tl.int64), tl.load(splits + place * 2 + 1)
        length, table = tl.load(decodes + sequence * 3), tables + tl.load(decodes + sequence * 3 + 1)
        first_seen = tl.maximum(length - window, 0)
        begin = tl.maximum(split * split_tokens, first_seen // tile * tile)
        end = tl.minimum((split + 1) * split_tokens, length)
        first_split, split_count = first_seen // split_tokens, tl.maximum(tl.cdiv(length, split_tokens), 1)
        # What lies before the window is not summed either. A text without tokens has a sum of 0.
        if (begin < end) | (length == 0):
            pair = sequence * kv_head_count + kv_head
            query_places = (pair * share + heads)[:, None] * head_size + elements[None, :]
            query = tl.load(queries + query_places, mask=is_query, other=0.0)
            largest, total = tl.full((padded_share,), float("-inf"), tl.float32), tl.zeros((padded_share,), tl.float32)
            sums = tl.zeros((padded_share, padded_head), tl.float32)
            for start in range(begin, end, tile):
                tokens = start + tl.arange(0, tile)
                is_seen = (tokens < length) & (tokens >= first_seen)
                slots = tl.load(table + tokens // block_size, mask=is_seen, other=0) * block_size + tokens % block_size
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
                    is_whole=False,
                )
            rows = (tl.cast(place, tl.int64) * kv_head_count + kv_head) * share + heads
            tl.store(partials + rows[:, None] * head_size + elements[None, :], sums, mask=is_query)
            tl.store(extremes + rows * 2, largest, mask=is_head)
            tl.store(extremes + rows * 2 + 1, total, mask=is_head)
            # All of the program's stores come before its count, and that before what the last one loads.
            tl.debug_barrier()
            done = tl.atomic_add(counters + pair, 1, sem="acq_rel") + 1
            if done == split_count - first_split:
                tl.store(counters + pair, 0)
                step = kv_head_count * share
                first = (tl.cast(place, tl.int64) - split) * step + kv_head * share
                own_sums, own_extremes = partials + first * head_size, extremes + first * 2
                output = outputs + pair * share * head_size
                own_sinks = sinks + kv_head * share
                sizes: tl.constexpr = (share, head_size, summed_share, sum_splits, sum_elements, has_sinks)
                sum_text(own_sums, own_extremes, output, own_sinks, step, first_split, split_count, sizes)


def choose_tile(head_size: int, dtype: torch.dtype, states: Tensor) -> tuple[int, int]:
    """Returns the tokens of a tile, and the warps that hold it and the sums of a KV head's queries without spilling.
    They depend on the model, the kind of its `states` and their GPU alone: Hopper takes twice the usual tile at
    once."""
    tile, size = tile_of(head_size, dtype), padded(head_size)
    if states.device.type == "cuda" and torch.cuda.get_device_capability(states.device) >= (9, 0):
        return 2 * tile, 4 if size <= (64 if states.itemsize == 1 else 128) else 8
    return tile, 4 if size <= 128 else 8


def count_summed_splits(share: int) -> int:
    """Counts the splits of a KV head with `share` query heads that are summed at a time."""
    count: int = SUM_ROWS // triton.next_power_of_2(share)
    return max(1, count)


def attend_decodes(queries: Tensor, pages: KvPages, work: DecodeWork, rule: AttentionRule) -> Tensor:
    """Maps contiguous queries [sequences, heads, head] to the same shape and type, and those of a text without tokens
    to zeros.

    Order of reduction: tiles of tokens within splits of 256, then as many splits at a time as `count_summed_splits`
    says, all counted from the start of the text. So no sequence's bits depend on another's length, on the number of
    them, or on the program that computes a split.
    """
    sequence_count, head_count, head_size = queries.shape
    _, kv_head_count, block_count, block_size, _ = pages.states.shape
    share, split_count = head_count // kv_head_count, len(work.splits)
    partials = torch.empty((split_count, head_count, head_size), device=queries.device)
    extremes = torch.empty((split_count, head_count, 2), device=queries.device)
    outputs = torch.empty_like(queries)
    tile, warp_count = choose_tile(head_size, queries.dtype, pages.states)
    program_count = min(split_count, triton.cdiv(MAX_PROGRAMS, kv_head_count))
    decode_attention_kernel[(program_count, kv_head_count)](
        queries,
        pages.states,
        partials if pages.scales is None else pages.scales,
        work.tables,
        work.decodes,
        work.splits,
        work.counters,
        partials,
        extremes,
        outputs,
        extremes if rule.sinks is None else rule.sinks,
        rule.scale,
        rule.token_count,
        rule.soft_cap or 1.0,
        block_count,
        sequence_count,
        block_size=block_size,
        head_size=head_size,
        share=share,
        padded_head=padded(head_size),
        padded_share=max(MIN_SHARE, triton.next_power_of_2(share)),
        has_scales=pages.scales is not None,
        has_cap=rule.soft_cap is not None,
        split_tokens=SPLIT_TOKENS,
        summed_share=triton.next_power_of_2(share),
        sum_splits=count_summed_splits(share),
        sum_elements=min(SUM_ELEMENTS, padded(head_size)),
        has_sinks=rule.sinks is not None,
        tile=tile,
        num_warps=warp_count,
        num_stages=STAGE_COUNT,
    )
    return outputs
