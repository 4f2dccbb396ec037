"""The sum of the splits of an attention."""

import torch
import triton
import triton.language as tl
from torch import Tensor

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
    sums = tl.zeros((padded_head,), tl.float32)
    for split in range(tl.cdiv(tl.load(lengths + sequence), split_tokens)):
        place = row * split_count + split
        own_total = tl.load(extremes + place * 2 + 1)
        # A split before the window holds nothing: its largest score is -inf, and -inf less -inf is no number.
        if own_total > 0:
            own_largest = tl.load(extremes + place * 2)
            higher = tl.maximum(largest, own_largest)
            shrink, own_shrink = tl.exp(largest - higher), tl.exp(own_largest - higher)
            own = tl.load(partials + place * head_size + elements, mask=is_element, other=0.0)
            sums = sums * shrink + own * own_shrink
            total = total * shrink + own_total * own_shrink
            largest = higher
    tl.store(outputs + row * head_size + elements, (sums / total).to(outputs.dtype.element_ty), mask=is_element)


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
