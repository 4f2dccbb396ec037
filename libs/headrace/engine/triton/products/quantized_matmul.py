"""The product of rows with quantized weights, on tensor cores."""

import torch
import triton
import triton.language as tl
from torch import Tensor

from headrace.engine.triton.products.gated_tile import gated_columns, store_gated
from headrace.engine.triton.products.packed_codes import BLOCK_INPUTS, BLOCK_PLANES, PLANE_INPUTS, PackedCodes
from headrace.engine.triton.products.tile_choice import Tile
from headrace.engine.triton.products.tile_sums import sum_tile


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
    is_float: tl.constexpr,
    group_size: tl.constexpr,
    group_planes: tl.constexpr,
    has_padding: tl.constexpr,
    activation: tl.constexpr,
    block_rows: tl.constexpr,
    block_out: tl.constexpr,
    plane_inputs: tl.constexpr,
    block_planes: tl.constexpr,
    stage_count: tl.constexpr,
):
    """Computes `block_rows` rows, `block_out` outputs and one split of the inputs. With an activation, half of those
    outputs are gates and the others their factors. Grid: blocks of rows, blocks of outputs, splits."""
    split = tl.program_id(2)
    rows = tl.program_id(0).to(tl.int64) * block_rows + tl.arange(0, block_rows)
    if activation is None:
        columns = tl.program_id(1) * block_out + tl.arange(0, block_out)
        is_column = columns < out_size
    else:
        columns, is_column = gated_columns(out_size, block_out)
    is_row = rows < row_count
    split_size = blocks_per_split * plane_inputs * block_planes
    first = split * split_size
    sums = sum_tile(
        inputs,
        rows * in_size,
        is_row,
        words,
        scales,
        zeros,
        columns,
        is_column,
        first,
        tl.minimum(first + split_size, in_size),
        in_size,
        out_size,
        bits,
        is_float,
        group_size,
        group_planes,
        has_padding,
        block_rows,
        block_out,
        plane_inputs,
        block_planes,
        stage_count,
    )
    if activation is None:
        place = (split.to(tl.int64) * row_count + rows[None, :]) * out_size + columns[:, None]
        tl.store(outputs + place, sums, mask=is_row[None, :] & is_column[:, None])
    else:
        store_gated(sums, outputs, rows, is_row, out_size // 2, activation, block_out)


def multiply_tiles(weight: PackedCodes, inputs: Tensor, split_count: int, tile: Tile) -> Tensor:
    """Multiplies contiguous inputs [rows, in], sorted as the weight, and returns the sums of each split, fp32 [splits,
    rows, out].

    Codes less their zero points, and floating-point ones, are exact in 16 bits, so weights are never rounded. Order
    of reduction: within a plane of 16 inputs as the tensor cores have it, plane by plane within the part of a group
    that a block of 128 inputs has, whose sum its scale multiplies, then part by part. It does not depend on the
    number of rows, nor on the row's place among them.
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
        is_float=weight.is_float,
        group_size=weight.group_size,
        group_planes=weight.group_planes,
        has_padding=weight.has_padding,
        activation=activation,
        block_rows=tile.row_count,
        block_out=tile.out_count,
        plane_inputs=PLANE_INPUTS,
        block_planes=BLOCK_PLANES,
        stage_count=tile.stage_count,
        num_warps=tile.warp_count,
        num_stages=tile.stage_count,
    )
