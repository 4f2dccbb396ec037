"""Weights as numbers again, for a matrix library."""

import torch
import triton
import triton.language as tl
from torch import Tensor

from headrace.engine.triton.packed_codes import PackedCodes

BLOCK_IN = 32
BLOCK_OUT = 128
WARP_COUNT = 4


@triton.jit
def dequantization_kernel(
    words,
    scales,
    zeros,
    outputs,
    in_size,
    out_size,
    group_size,
    bits: tl.constexpr,
    block_in: tl.constexpr,
    block_out: tl.constexpr,
):
    """Computes `block_in` x `block_out` numbers of one group. Grid: blocks of inputs, blocks of outputs."""
    per_word: tl.constexpr = 32 // bits
    start = tl.program_id(0).to(tl.int64) * block_in
    columns = tl.program_id(1) * block_out + tl.arange(0, block_out)
    is_column = columns < out_size
    shifts = tl.arange(0, per_word) * bits
    word_rows = start // per_word + tl.arange(0, block_in // per_word)
    packed = tl.load(words + word_rows[:, None] * out_size + columns[None, :], mask=is_column[None, :], other=0)
    codes = (packed[:, None, :] >> shifts[None, :, None]) & ((1 << bits) - 1)
    group = start // group_size * out_size + columns
    zero = tl.load(zeros + group, mask=is_column, other=0).to(tl.int32)
    scale = tl.load(scales + group, mask=is_column, other=0.0)
    numbers = (tl.reshape(codes, (block_in, block_out)) - zero[None, :]).to(tl.float32) * scale[None, :]
    places = start + tl.arange(0, block_in)
    is_number = (places < in_size)[:, None] & is_column[None, :]
    tl.store(
        outputs + places[:, None] * out_size + columns[None, :], numbers.to(outputs.dtype.element_ty), mask=is_number
    )


def dequantize(weight: PackedCodes, dtype: torch.dtype) -> Tensor:
    """Returns the weight [in, out], with inputs in the order of the codes, each number rounded once to `dtype`."""
    outputs = torch.empty((weight.in_size, weight.out_size), dtype=dtype, device=weight.words.device)
    grid = (triton.cdiv(weight.in_size, BLOCK_IN), triton.cdiv(weight.out_size, BLOCK_OUT))
    dequantization_kernel[grid](
        weight.words,
        weight.scales,
        weight.zeros,
        outputs,
        weight.in_size,
        weight.out_size,
        weight.group_size,
        bits=weight.bits,
        block_in=BLOCK_IN,
        block_out=BLOCK_OUT,
        num_warps=WARP_COUNT,
    )
    return outputs
