"""Norm and rotary position embedding of queries and keys, and their way into a paged KV cache, in one pass."""

from dataclasses import dataclass

import torch
import triton
import triton.language as tl
from torch import Tensor

from headrace.engine.triton.attention.kv_pages import KvPages
from headrace.engine.triton.split_sum import SplitRows, sum_of_splits

WARP_COUNT = 1
MAX_CODES = {torch.int8: 127.0, torch.float8_e4m3fn: 448.0}


@dataclass(frozen=True, slots=True)
class RotaryHeads:
    """Heads of one layer."""

    head_count: int
    cosines: Tensor
    """Float32 [positions, rotary / 2]."""
    sines: Tensor
    """Float32 [positions, rotary / 2]."""
    norms: Tensor | None = None
    """Weights float32 [2, head] of the root mean square norms of queries and of keys (Henry et al., 2020)."""
    epsilon: float = 0.0
    norms_rotated: bool = False
    """Whether heads are normalized after they rotate."""


@triton.jit
def rotary_store_kernel(
    projected,
    bias,
    norms,
    cosines,
    sines,
    positions,
    slots,
    queries,
    states,
    scales,
    epsilon,
    slot_count,
    head_count: tl.constexpr,
    kv_head_count: tl.constexpr,
    head_size: tl.constexpr,
    padded_head: tl.constexpr,
    half: tl.constexpr,
    split_count: tl.constexpr,
    has_bias: tl.constexpr,
    has_norms: tl.constexpr,
    norms_rotated: tl.constexpr,
    largest_code: tl.constexpr,
    is_integer: tl.constexpr,
):
    """Takes one head of one token where it belongs. Grid: tokens, heads of queries, keys and values."""
    token, head = tl.program_id(0).to(tl.int64), tl.program_id(1)
    elements = tl.arange(0, padded_head)
    is_element = elements < head_size
    # Values are neither normalized nor turned.
    changed_size = tl.where(head < head_count + kv_head_count, head_size, 0)
    row_size: tl.constexpr = (head_count + 2 * kv_head_count) * head_size
    column = head * head_size
    is_turned = elements < tl.minimum(changed_size, 2 * half)
    is_first = elements < half
    partners = tl.where(is_turned, tl.where(is_first, elements + half, elements - half), elements)
    own, other = column + elements, column + partners
    row = token * row_size
    if split_count > 0:
        split_size = tl.num_programs(0).to(tl.int64) * row_size
        numbers = sum_of_splits(projected, bias, row + own, own, is_element, split_size, split_count, has_bias)
        others = sum_of_splits(projected, bias, row + other, other, is_element, split_size, split_count, has_bias)
        # Rounded as if they had been written.
        numbers = numbers.to(queries.dtype.element_ty).to(tl.float32)
        others = others.to(queries.dtype.element_ty).to(tl.float32)
    else:
        numbers = tl.load(projected + row + own, mask=is_element, other=0.0).to(tl.float32)
        others = tl.load(projected + row + other, mask=is_element, other=0.0).to(tl.float32)
    weights = norms + (head >= head_count).to(tl.int32) * head_size
    is_normed = elements < changed_size
    if has_norms and not norms_rotated:
        factor = 1 / tl.sqrt(tl.sum(numbers * numbers, axis=0) / head_size + epsilon)
        factor = tl.where(is_normed, factor, 1.0)
        numbers = numbers * factor * tl.load(weights + elements, mask=is_normed, other=1.0)
        others = others * factor * tl.load(weights + partners, mask=is_normed, other=1.0)
    angles = tl.load(positions + token).to(tl.int64) * half + tl.where(is_first, elements, elements - half)
    cosine = tl.load(cosines + angles, mask=is_turned, other=1.0)
    sine = tl.load(sines + angles, mask=is_turned, other=0.0)
    turned = numbers * cosine + others * tl.where(is_first, -sine, sine)
    if has_norms and norms_rotated:
        factor = 1 / tl.sqrt(tl.sum(turned * turned, axis=0) / head_size + epsilon)
        factor = tl.where(is_normed, factor, 1.0)
        turned = turned * factor * tl.load(weights + elements, mask=is_normed, other=1.0)
    if head < head_count:
        query = (token * head_count + head) * head_size + elements
        tl.store(queries + query, turned.to(queries.dtype.element_ty), mask=is_element)
    else:
        slot = tl.load(slots + token).to(tl.int64)
        place, is_kept = (head - head_count) * slot_count + slot, slot >= 0
        kept = turned
        if largest_code > 0:
            # A difference of what is no number is none either: the scale tells of it, which a code cannot.
            most = tl.max(tl.abs(turned), axis=0) + tl.sum(turned - turned, axis=0)
            scale = tl.where(most <= 1e-30, 1.0, tl.div_rn(most, largest_code))
            tl.store(scales + place, scale, mask=is_kept)
            kept = tl.div_rn(turned, tl.broadcast_to(scale, (padded_head,)))
        if is_integer:
            # In [2^23, 2^24) fp32 has integers alone: the addition rounds to the nearest, of two to the even one.
            kept = (kept + 12582912.0) - 12582912.0
        tl.store(states + place * head_size + elements, kept.to(states.dtype.element_ty), mask=is_element & is_kept)


def rotate_and_store(
    projected: Tensor | SplitRows,
    heads: RotaryHeads,
    pages: KvPages,
    positions: Tensor,
    slots: Tensor,
) -> Tensor:
    """Turns contiguous `projected` [tokens, (query, key and value heads) x head] by `positions` int32 [tokens]
    (RoFormer, Su et al., 2021, pairing the halves of the leading elements), after or before their norms. Stores keys
    and values at `slots` int32 [tokens], those of a negative slot nowhere, and returns the queries [tokens, heads,
    head] in the type of `projected`.

    Split rows are summed and rounded first. The rest is computed in fp32 and rounded once. Codes have one scale for
    each token and head, which gives the largest element the largest code.
    """
    _, kv_head_count, block_count, block_size, head_size = pages.states.shape
    rows, bias, split_count = (
        (projected, None, 0)
        if isinstance(projected, Tensor)
        else (projected.partials, projected.bias, projected.split_count)
    )
    row_count = rows.shape[-2]
    queries = torch.empty((row_count, heads.head_count, head_size), dtype=projected.dtype, device=rows.device)
    kept = pages.states.dtype
    rotary_store_kernel[(row_count, heads.head_count + 2 * kv_head_count)](
        rows,
        rows if bias is None else bias,
        heads.cosines if heads.norms is None else heads.norms,
        heads.cosines,
        heads.sines,
        positions,
        slots,
        queries,
        pages.states,
        heads.cosines if pages.scales is None else pages.scales,
        heads.epsilon,
        block_count * block_size,
        head_count=heads.head_count,
        kv_head_count=kv_head_count,
        head_size=head_size,
        padded_head=triton.next_power_of_2(head_size),
        half=heads.cosines.shape[1],
        split_count=split_count,
        has_bias=bias is not None,
        has_norms=heads.norms is not None,
        norms_rotated=heads.norms_rotated,
        largest_code=0.0 if pages.scales is None else MAX_CODES[kept],
        is_integer=kept == torch.int8,
        num_warps=WARP_COUNT,
    )
    return queries
