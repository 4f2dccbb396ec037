"""Weights as numbers again, for a matrix library."""

import torch
import triton
import triton.language as tl
from torch import Tensor

from headrace.engine.triton.products.centered_codes import center_codes
from headrace.engine.triton.products.float_codes import float_codes
from headrace.engine.triton.products.packed_codes import BLOCK_INPUTS, BLOCK_PLANES, PLANE_INPUTS, PackedCodes

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
    bits: tl.constexpr,
    is_float: tl.constexpr,
    group_size: tl.constexpr,
    group_planes: tl.constexpr,
    block_out: tl.constexpr,
    plane_inputs: tl.constexpr,
    block_planes: tl.constexpr,
):
    """Computes the numbers of one block of inputs and `block_out` outputs. Grid: blocks of inputs, blocks of
    outputs."""
    per_word: tl.constexpr = 32 // bits
    start = tl.program_id(0) * plane_inputs * block_planes
    columns = tl.program_id(1) * block_out + tl.arange(0, block_out)
    is_column = columns < out_size
    lanes = tl.arange(0, plane_inputs)
    for plane in tl.static_range(block_planes):
        if plane % per_word == 0:
            word_rows = start // per_word + plane // per_word * plane_inputs + lanes
            tile = words + word_rows.to(tl.int64)[:, None] * out_size + columns[None, :]
            packed = tl.load(tile, mask=is_column[None, :], other=0)
        places = start + plane * plane_inputs + lanes
        if plane % group_planes == 0:
            group = (start + plane * plane_inputs) // group_size * out_size + columns
            scale = tl.load(scales + group, mask=is_column, other=0.0)
            if not is_float:
                zero = tl.load(zeros + group, mask=is_column, other=0)
        codes = (packed >> (plane % per_word // 2 * bits + plane % 2 * 16)) & ((1 << bits) - 1)
        if is_float:
            numbers = float_codes(codes, tl.float32, bits) * scale[None, :]
        elif zeros.dtype.element_ty == tl.float32:
            numbers = codes.to(tl.float32) * scale[None, :] + zero[None, :]
        else:
            numbers = center_codes(codes, zero[None, :], tl.float32, bits) * scale[None, :]
        is_number = (places < in_size)[:, None] & is_column[None, :]
        place = outputs + places.to(tl.int64)[:, None] * out_size + columns[None, :]
        tl.store(place, numbers.to(outputs.dtype.element_ty), mask=is_number)


def dequantize(weight: PackedCodes, dtype: torch.dtype) -> Tensor:
    """Returns the weight [in, out], with inputs in the order of the codes, each number rounded once to `dtype`."""
    outputs = torch.empty((weight.in_size, weight.out_size), dtype=dtype, device=weight.words.device)
    grid = (triton.cdiv(weight.in_size, BLOCK_INPUTS), triton.cdiv(weight.out_size, BLOCK_OUT))
    dequantization_kernel[grid](
        weight.words,
        weight.scales,
        weight.zeros,
        outputs,
        weight.in_size,
        weight.out_size,
        bits=weight.bits,
        is_float=weight.is_float,
        group_size=weight.group_size,
        group_planes=weight.group_planes,
        block_out=BLOCK_OUT,
        plane_inputs=PLANE_INPUTS,
        block_planes=BLOCK_PLANES,
        num_warps=WARP_COUNT,
    )
    return outputs
