"""The product of a few rows with quantized weights, without tensor cores."""

import torch
import triton
import triton.language as tl
from torch import Tensor

from headrace.engine.triton.packed_codes import PackedCodes

BLOCK_OUT = 64
BLOCK_IN = 32
WARP_COUNT = 4


@triton.jit
def quantized_gemv_kernel(
    inputs,
    words,
    scales,
    zeros,
    partials,
    row_count,
    in_size,
    out_size,
    group_size,
    blocks_per_split,
    bits: tl.constexpr,
    block_in: tl.constexpr,
    block_out: tl.constexpr,
):
    """Computes one row, `block_out` outputs and one split of the inputs. Grid: rows, blocks of outputs, splits."""
    row, split = tl.program_id(0).to(tl.int64), tl.program_id(2).to(tl.int64)
    per_word: tl.constexpr = 32 // bits
    columns = tl.program_id(1) * block_out + tl.arange(0, block_out)
    is_column = columns < out_size
    shifts = tl.arange(0, per_word) * bits
    sums = tl.zeros((block_out,), tl.float32)
    first = split * blocks_per_split * block_in
    last = tl.minimum(first + blocks_per_split * block_in, in_size)
    for start in range(first, last, block_in):
        places = start + tl.arange(0, block_in)
        numbers = tl.load(inputs + row * in_size + places, mask=places < in_size, other=0.0).to(tl.float32)
        word_rows = start // per_word + tl.arange(0, block_in // per_word)
        packed = tl.load(words + word_rows[:, None] * out_size + columns[None, :], mask=is_column[None, :], other=0)
        codes = (packed[:, None, :] >> shifts[None, :, None]) & ((1 << bits) - 1)
        group = start // group_size * out_size + columns
        zero = tl.load(zeros + group, mask=is_column, other=0).to(tl.int32)
        scale = tl.load(scales + group, mask=is_column, other=0.0)
        centered = (tl.reshape(codes, (block_in, block_out)) - zero[None, :]).to(tl.float32)
        sums += tl.sum(numbers[:, None] * centered, axis=0) * scale
    place = (split * row_count + row) * out_size + columns
    tl.store(partials + place, sums, mask=is_column)


def multiply_rows(weight: PackedCodes, inputs: Tensor, split_count: int) -> Tensor:
    """Multiplies contiguous inputs [rows, in], sorted as the weight, and returns the sums of each split, fp32 [splits,
    rows, out].

    Order of reduction: within a block of 32 inputs as `tl.sum` has it, then block by block. A block belongs to one
    group, whose scale multiplies its sum. Each program computes one row, which sees no other.
    """
    row_count = len(inputs)
    partials = torch.empty((split_count, row_count, weight.out_size), device=inputs.device)
    blocks_per_split = triton.cdiv(triton.cdiv(weight.in_size, BLOCK_IN), split_count)
    grid = (row_count, triton.cdiv(weight.out_size, BLOCK_OUT), split_count)
    quantized_gemv_kernel[grid](
        inputs,
        weight.words,
        weight.scales,
        weight.zeros,
        partials,
        row_count,
        weight.in_size,
        weight.out_size,
        weight.group_size,
        blocks_per_split,
        bits=weight.bits,
        block_in=BLOCK_IN,
        block_out=BLOCK_OUT,
        num_warps=WARP_COUNT,
    )
    return partials
