"""The sum of the splits of an attention."""

import torch
import triton
import triton.language as tl
from torch import Tensor

from headrace.engine.triton.attention.attention_tile import SPLIT_TOKENS, add_split

WARP_COUNT = 2


@triton.jit
def attention_sum_kernel(
    partials,
    extremes,
    decodes,
    outputs,
    head_count,
    window,
    head_size: tl.constexpr,
    padded_head: tl.constexpr,
    split_tokens: tl.constexpr,
):
    """Sums one head of one sequence. Grid: sequences, heads."""
    sequence, head = tl.program_id(0).to(tl.int64), tl.program_id(1)
    length, first = tl.load(decodes + sequence * 3), tl.load(decodes + sequence * 3 + 2).to(tl.int64)
    elements = tl.arange(0, padded_head)
    is_element = elements < head_size
    largest = tl.full((1,), float("-inf"), tl.float32)
    total = tl.zeros((1,), tl.float32)
    sums = tl.zeros((1, padded_head), tl.float32)
    one = tl.arange(0, 1)
    for split in range(tl.maximum(length - window, 0) // split_tokens, tl.cdiv(length, split_tokens)):
        place = (first + split) * head_count + head
        own_largest, own_total = tl.load(extremes + place * 2 + one), tl.load(extremes + place * 2 + 1 + one)
        own = tl.load(partials + place * head_size + elements, mask=is_element, other=0.0)
        largest, total, sums = add_split(largest, total, sums, own_largest, own_total, own[None, :])
    # The row of no text has no sum.
    numbers = tl.reshape(sums / tl.where(total > 0, total, 1.0)[:, None], (padded_head,))
    row = sequence * head_count + head
    tl.store(outputs + row * head_size + elements, numbers.to(outputs.dtype.element_ty), mask=is_element)


def sum_attention(partials: Tensor, extremes: Tensor, decodes: Tensor, window: int, dtype: torch.dtype) -> Tensor:
    """Sums partials fp32 [splits, heads, head] of each text in order, from the first split in its window on. `extremes`
    fp32 [splits, heads, 2] hold the largest score and the sum of weights; `decodes`, see `DecodeWork`.
    Returns [sequences, heads, head]."""
    _, head_count, head_size = partials.shape
    sequence_count = len(decodes) - 1
    outputs = torch.empty((sequence_count, head_count, head_size), dtype=dtype, device=partials.device)
    attention_sum_kernel[(sequence_count, head_count)](
        partials,
        extremes,
        decodes,
        outputs,
        head_count,
        window,
        head_size=head_size,
        padded_head=triton.next_power_of_2(head_size),
        split_tokens=SPLIT_TOKENS,
        num_warps=WARP_COUNT,
    )
    return outputs
