"""The product of many rows with quantized weights, on tensor cores."""

from dataclasses import dataclass

import torch
import triton
import triton.language as tl
from torch import Tensor

from headrace.engine.triton.packed_codes import PackedCodes


@dataclass(frozen=True, slots=True)
class Tile:
    """Part of the result that one program computes, and the resources it does that with."""

    row_count: int
    out_count: int
    warp_count: int
    stage_count: int
    """Blocks of inputs and words on their way from memory at once."""


NARROW = Tile(16, 64, 4, 3)
WIDE = Tile(64, 64, 4, 3)


@triton.jit
def quantized_matmul_kernel(
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
    block_rows: tl.constexpr,
    block_in: tl.constexpr,
    block_out: tl.constexpr,
):
    """Computes `block_rows` rows, `block_out` outputs and one split of the inputs. Grid: blocks of rows, blocks of
    outputs, splits."""
    split = tl.program_id(2).to(tl.int64)
    per_word: tl.constexpr = 32 // bits
    rows = tl.program_id(0).to(tl.int64) * block_rows + tl.arange(0, block_rows)
    columns = tl.program_id(1) * block_out + tl.arange(0, block_out)
    is_row, is_column = rows < row_count, columns < out_size
    shifts = tl.arange(0, per_word) * bits
    sums = tl.zeros((block_rows, block_out), tl.float32)
    first = split * blocks_per_split * block_in
    last = tl.minimum(first + blocks_per_split * block_in, in_size)
    for start in range(first, last, block_in):
        places = start + tl.arange(0, block_in)
        is_number = is_row[:, None] & (places < in_size)[None, :]
        numbers = tl.load(inputs + rows[:, None] * in_size + places[None, :], mask=is_number, other=0.0)
        word_rows = start // per_word + tl.arange(0, block_in // per_word)
        packed = tl.load(words + word_rows[:, None] * out_size + columns[None, :], mask=is_column[None, :], other=0)
        codes = (packed[:, None, :] >> shifts[None, :, None]) & ((1 << bits) - 1)
        group = start // group_size * out_size + columns
        zero = tl.load(zeros + group, mask=is_column, other=0).to(tl.int32)
        scale = tl.load(scales + group, mask=is_column, other=0.0)
        centered = (tl.reshape(codes, (block_in, block_out)) - zero[None, :]).to(tl.float32).to(numbers.dtype)
        sums += tl.dot(numbers, centered, input_precision="ieee") * scale[None, :]
    place = (split * row_count + rows[:, None]) * out_size + columns[None, :]
    tl.store(partials + place, sums, mask=is_row[:, None] & is_column[None, :])


def block_of_inputs(weight: PackedCodes) -> int:
    """Returns the inputs of one block: 64, or 32 where groups have no whole 64s."""
    return 64 if weight.group_size % 64 == 0 or weight.group_size >= weight.in_size else 32


def multiply_tiles(weight: PackedCodes, inputs: Tensor, split_count: int, tile: Tile) -> Tensor:
    """Multiplies contiguous inputs [rows, in], sorted as the weight, and returns the sums of each split, fp32 [splits,
    rows, out].

    Codes less their zero points are exact in 16 bits, so weights are never rounded. Order of reduction: within a block
    of 32 or 64 inputs as the tensor cores have it, then block by block. A block belongs to one group, whose scale
    multiplies its sum. It does not depend on the number of rows, nor on the row's place among them.
    """
    row_count, block_in = len(inputs), block_of_inputs(weight)
    partials = torch.empty((split_count, row_count, weight.out_size), device=inputs.device)
    blocks_per_split = triton.cdiv(triton.cdiv(weight.in_size, block_in), split_count)
    grid = (triton.cdiv(row_count, tile.row_count), triton.cdiv(weight.out_size, tile.out_count), split_count)
    quantized_matmul_kernel[grid](
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
        block_rows=tile.row_count,
        block_in=block_in,
        block_out=tile.out_count,
        num_warps=tile.warp_count,
        num_stages=tile.stage_count,
    )
    return partials
