"""The product of rows with quantized weights, on tensor cores."""

import torch
import triton
import triton.language as tl
from torch import Tensor

from headrace.engine.triton.centered_codes import center_codes
from headrace.engine.triton.gated_activation import activated
from headrace.engine.triton.packed_codes import BLOCK_INPUTS, BLOCK_PLANES, PLANE_INPUTS, PackedCodes
from headrace.engine.triton.tile_choice import Tile


@triton.jit(do_not_specialize=["row_count", "blocks_per_split"])
def quantized_matmul_kernel(
    inputs,
    words,
    scales,
    zeros,
    outputs,
    row_count,
    in_size,
    out_size,
    blocks_per_split,
    bits: tl.constexpr,
    group_size: tl.constexpr,
    group_planes: tl.constexpr,
    has_padding: tl.constexpr,
    activation: tl.constexpr,
    block_rows: tl.constexpr,
    block_out: tl.constexpr,
    plane_inputs: tl.constexpr,
    block_planes: tl.constexpr,
):
    """Computes `block_rows` rows, `block_out` outputs and one split of the inputs. With an activation, half of those
    outputs are gates and the others their factors. Grid: blocks of rows, blocks of outputs, splits."""
    split = tl.program_id(2)
    per_word: tl.constexpr = 32 // bits
    block_in: tl.constexpr = plane_inputs * block_planes
    rows = tl.program_id(0).to(tl.int64) * block_rows + tl.arange(0, block_rows)
    if activation is None:
        columns = tl.program_id(1) * block_out + tl.arange(0, block_out)
        is_column = columns < out_size
    else:
        lane, half = tl.arange(0, block_out), block_out // 2
        pair = tl.program_id(1) * half + lane % half
        columns = pair + lane // half * (out_size // 2)
        is_column = pair < out_size // 2
    is_row = rows < row_count
    sums = tl.zeros((block_rows, block_out), tl.float32)
    first = split * blocks_per_split * block_in
    last = tl.minimum(first + blocks_per_split * block_in, in_size)
    lanes = tl.arange(0, plane_inputs)
    word_places = words + (first // per_word + lanes).to(tl.int64)[:, None] * out_size + columns[None, :]
    places = inputs + rows[:, None] * in_size + first + lanes[None, :]
    for start in range(first, last, block_in):
        for plane in tl.static_range(block_planes):
            if plane % per_word == 0:
                tile = word_places + plane // per_word * plane_inputs * out_size
                packed = tl.load(tile, mask=is_column[None, :], other=0)
            if plane % group_planes == 0:
                group = (start + plane * plane_inputs) // group_size * out_size + columns
                zero = tl.load(zeros + group, mask=is_column, other=0).to(tl.int32)
                scale = tl.load(scales + group, mask=is_column, other=0.0)
                group_sums = tl.zeros((block_rows, block_out), tl.float32)
            is_number = is_row[:, None]
            if has_padding:
                is_number = is_number & (start + plane * plane_inputs + lanes < in_size)[None, :]
            numbers = tl.load(places + plane * plane_inputs, mask=is_number, other=0.0)
            codes = (packed >> (plane % per_word * bits)) & ((1 << bits) - 1)
            centered = center_codes(codes, zero[None, :], numbers.dtype, bits)
            group_sums = tl.dot(numbers, centered, group_sums, input_precision="ieee")
            if plane % group_planes == group_planes - 1:
                sums += group_sums * scale[None, :]
        word_places += block_in // per_word * out_size
        places += block_in
    if activation is None:
        place = (split.to(tl.int64) * row_count + rows[:, None]) * out_size + columns[None, :]
        tl.store(outputs + place, sums, mask=is_row[:, None] & is_column[None, :])
    else:
        halves = tl.reshape(sums.to(outputs.dtype.element_ty).to(tl.float32), (block_rows, 2, block_out // 2))
        gates, factors = tl.split(tl.permute(halves, (0, 2, 1)))
        gated = activated(gates, activation) * factors
        pairs = tl.program_id(1) * (block_out // 2) + tl.arange(0, block_out // 2)
        place = rows[:, None] * (out_size // 2) + pairs[None, :]
        is_pair = is_row[:, None] & (pairs < out_size // 2)[None, :]
        tl.store(outputs + place, gated.to(outputs.dtype.element_ty), mask=is_pair)


def multiply_tiles(weight: PackedCodes, inputs: Tensor, split_count: int, tile: Tile) -> Tensor:
    """Multiplies contiguous inputs [rows, in], sorted as the weight, and returns the sums of each split, fp32 [splits,
    rows, out].

    Codes less their zero points are exact in 16 bits, so weights are never rounded. Order of reduction: within a plane
    of 16 inputs as the tensor cores have it, plane by plane within the part of a group that a block of 128 inputs has,
    whose sum its scale multiplies, then part by part. It does not depend on the number of rows, nor on the row's place
    among them.
    """
    partials = torch.empty((split_count, len(inputs), weight.out_size), device=inputs.device)
    _launch(weight, inputs, partials, split_count, tile, None)
    return partials


def multiply_and_gate(weight: PackedCodes, inputs: Tensor, activation: str, tile: Tile) -> Tensor:
    """Multiplies contiguous inputs [rows, in], sorted as the weight, whose outputs are gates before factors. Returns
    [rows, out / 2] of the type of the inputs: both are rounded to it, then one activated, times the other."""
    outputs = torch.empty((len(inputs), weight.out_size // 2), dtype=inputs.dtype, device=inputs.device)
    _launch(weight, inputs, outputs, 1, tile, activation)
    return outputs


def _launch(
    weight: PackedCodes, inputs: Tensor, outputs: Tensor, split_count: int, tile: Tile, activation: str | None
) -> None:
    row_count = len(inputs)
    blocks_per_split = triton.cdiv(triton.cdiv(weight.in_size, BLOCK_INPUTS), split_count)
    # A tile with gates in one half and factors in the other has as many outputs as any.
    halves = 1 if activation is None else 2
    tiles = triton.cdiv(weight.out_size // halves, tile.out_count // halves)
    quantized_matmul_kernel[(triton.cdiv(row_count, tile.row_count), tiles, split_count)](
        inputs,
        weight.words,
        weight.scales,
        weight.zeros,
        outputs,
        row_count,
        weight.in_size,
        weight.out_size,
        blocks_per_split,
        bits=weight.bits,
        group_size=weight.group_size,
        group_planes=weight.group_planes,
        has_padding=weight.has_padding,
        activation=activation,
        block_rows=tile.row_count,
        block_out=tile.out_count,
        plane_inputs=PLANE_INPUTS,
        block_planes=BLOCK_PLANES,
        num_warps=tile.warp_count,
        num_stages=tile.stage_count,
    )
