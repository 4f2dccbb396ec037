"""Products of sorted rows with the weights of their experts: a layer's mixture in one launch each."""

import torch
import triton
import triton.language as tl
from torch import Tensor

from headrace.engine.triton.products.expert_codes import ExpertCodes
from headrace.engine.triton.products.expert_rows import ExpertRows
from headrace.engine.triton.products.gated_tile import gated_columns, store_gated
from headrace.engine.triton.products.packed_codes import BLOCK_PLANES, PLANE_INPUTS
from headrace.engine.triton.products.tile_choice import Tile
from headrace.engine.triton.products.tile_sums import sum_tile


@triton.jit(do_not_specialize=["choice_count"])
def grouped_matmul_kernel(
    inputs,
    words,
    scales,
    zeros,
    places,
    experts,
    weights,
    outputs,
    choice_count,
    in_size,
    out_size,
    word_rows,
    grid_rows,
    zero_rows,
    chosen_count: tl.constexpr,
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
    """Computes a tile of one expert's rows by `block_out` outputs. With an activation, inputs are those of rows and
    outputs those of choices, gated; without, the other way around, each times its choice's weight. Grid: tiles, blocks
    of outputs."""
    expert = tl.load(experts + tl.program_id(0)).to(tl.int64)
    if expert < 0:
        return
    choices = tl.load(places + tl.program_id(0) * block_rows + tl.arange(0, block_rows)).to(tl.int64)
    is_row = choices < choice_count
    if activation is None:
        columns = tl.program_id(1) * block_out + tl.arange(0, block_out)
        is_column = columns < out_size
        row_places = choices * in_size
    else:
        columns, is_column = gated_columns(out_size, block_out)
        row_places = choices // chosen_count * in_size
    sums = sum_tile(
        inputs,
        row_places,
        is_row,
        words + expert * word_rows * out_size,
        scales + expert * grid_rows * out_size,
        zeros + expert * zero_rows * out_size,
        columns,
        is_column,
        0,
        in_size,
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
        shares = tl.load(weights + choices, mask=is_row, other=0.0).to(tl.float32)
        place = choices % chosen_count * (choice_count // chosen_count) + choices // chosen_count
        mask = is_row[None, :] & is_column[:, None]
        tl.store(outputs + place[None, :] * out_size + columns[:, None], sums * shares[None, :], mask=mask)
    else:
        store_gated(sums, outputs, choices, is_row, out_size // 2, activation, block_out)


def gate_grouped(weight: ExpertCodes, inputs: Tensor, rows: ExpertRows, activation: str, tile: Tile) -> Tensor:
    """Multiplies contiguous inputs [rows, in] by the weights of their experts, gates before factors, activates the
    gates and multiplies both. Returns [choices, out / 2] of the type of the inputs, in the order of rows."""
    outputs = inputs.new_empty((rows.choice_count, weight.first.out_size // 2))
    _launch(weight, inputs, rows, inputs, outputs, tile, rows.choice_count // len(inputs), activation)
    return outputs


def multiply_grouped(weight: ExpertCodes, inputs: Tensor, rows: ExpertRows, shares: Tensor, tile: Tile) -> Tensor:
    """Multiplies contiguous inputs [choices, in] by the weights of their experts, each times its share. `shares` are
    [rows, chosen]. Returns fp32 [chosen, rows, out], to be summed over the first."""
    row_count, chosen_count = shares.shape
    outputs = torch.empty((chosen_count, row_count, weight.first.out_size), device=inputs.device)
    _launch(weight, inputs, rows, shares.contiguous(), outputs, tile, chosen_count, None)
    return outputs


def _launch(
    weight: ExpertCodes,
    inputs: Tensor,
    rows: ExpertRows,
    shares: Tensor,
    outputs: Tensor,
    tile: Tile,
    chosen_count: int,
    activation: str | None,
) -> None:
    one = weight.first
    halves = 1 if activation is None else 2
    blocks = triton.cdiv(one.out_size // halves, tile.out_count // halves)
    grouped_matmul_kernel[(rows.tile_count, blocks)](
        inputs,
        weight.words,
        weight.scales,
        weight.zeros,
        rows.places,
        rows.experts,
        shares,
        outputs,
        rows.choice_count,
        one.in_size,
        one.out_size,
        weight.words.shape[1],
        weight.scales.shape[1],
        weight.zeros.shape[1],
        chosen_count=chosen_count,
        bits=one.bits,
        is_float=one.is_float,
        group_size=one.group_size,
        group_planes=one.group_planes,
        has_padding=one.has_padding,
        activation=activation,
        block_rows=tile.row_count,
        block_out=tile.out_count,
        plane_inputs=PLANE_INPUTS,
        block_planes=BLOCK_PLANES,
        stage_count=tile.stage_count,
        num_warps=tile.warp_count,
        num_stages=tile.stage_count,
    )
