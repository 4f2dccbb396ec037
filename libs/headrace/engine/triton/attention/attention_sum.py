"""The sum of the splits of an attention."""

import torch
import triton
import triton.language as tl
from torch import Tensor

from headrace.engine.triton.attention.attention_tile import add_split

WARP_COUNT = 2


@triton.jit
def attention_sum_kernel(
    partials,
    extremes,
    lengths,
    outputs,
    head_count,
    split_count,
    head_size: tl.constexpr,
    padded_head: tl.constexpr,
    split_tokens: tl.constexpr,
):
    """Sums one head of one sequence. Grid: sequences, heads."""
    sequence = tl.program_id(0).to(tl.int64)
    row = sequence * head_count + tl.program_id(1)
    elements = tl.arange(0, padded_head)
    is_element = elements < head_size
    largest = tl.full((1,), float("-inf"), tl.float32)
    total = tl.zeros((1,), tl.float32)
    sums = tl.zeros((1, padded_head), tl.float32)
    one = tl.arange(0, 1)
    for split in range(tl.cdiv(tl.load(lengths + sequence), split_tokens)):
        place = row * split_count + split
        own_largest, own_total = tl.load(extremes + place * 2 + one), tl.load(extremes + place * 2 + 1 + one)
        own = tl.load(partials + place * head_size + elements, mask=is_element, other=0.0)
        largest, total, sums = add_split(largest, total, sums, own_largest, own_total, own[None, :])
    numbers = tl.reshape(sums / total[:, None], (padded_head,))
    tl.store(outputs + row * head_size + elements, numbers.to(outputs.dtype.element_ty), mask=is_element)


def sum_attention(partials: Tensor, extremes: Tensor, lengths: Tensor, split_tokens: int, dtype: torch.dtype) -> Tensor:
    """Sums partials fp32 [sequences, heads, splits, head] in the order of splits, as far as each text goes. `extremes`
    fp32 [sequences, heads, splits, 2] hold the largest score and the sum of weights.
    Returns [sequences, heads, head]."""
    sequence_count, head_count, split_count, head_size = partials.shape
    outputs = torch.empty((sequence_count, head_count, head_size), dtype=dtype, device=partials.device)
    attention_sum_kernel[(sequence_count, head_count)](
        partials,
        extremes,
        lengths,
        outputs,
        head_count,
        split_count,
        head_size=head_size,
        padded_head=triton.next_power_of_2(head_size),
        split_tokens=split_tokens,
        num_warps=WARP_COUNT,
    )
    return outputs
