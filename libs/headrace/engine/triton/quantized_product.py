"""Choice among the kernels that multiply quantized weights, and the whole product."""

from enum import Enum

import torch
from torch import Tensor

from headrace.engine.triton.dequantization import dequantize
from headrace.engine.triton.packed_codes import PackedCodes
from headrace.engine.triton.quantized_gemv import multiply_rows
from headrace.engine.triton.quantized_matmul import NARROW, WIDE, multiply_tiles
from headrace.engine.triton.split_sum import sum_splits

MAX_GEMV_ROWS = 4
MAX_NARROW_ROWS = 64
WANTED_PROGRAMS = 256
"""Programs that fill a GPU: two for each of the 108 to 132 multiprocessors of sm_80 and sm_90."""
MIN_SPLIT = 512
"""Inputs of a split below which its sum costs more than it saves."""
MAX_SPLITS = 8


class ProductKernel(Enum):
    """Kernels of a product. A row's bits are the same in any batch that takes the same one."""

    GEMV = "gemv"
    NARROW = "narrow"
    WIDE = "wide"
    DEQUANTIZED = "dequantized"


def choose_kernel(row_count: int, max_tiled_rows: int | None = None) -> ProductKernel:
    """Chooses by rows alone: up to 4 one by one, up to 64 in tiles of 16, more in tiles of 64, and above
    `max_tiled_rows` by dequantizing. From one kernel to the next the last bits of a row may change; whoever needs them
    not to names one kernel for all."""
    if max_tiled_rows is not None and row_count > max_tiled_rows:
        return ProductKernel.DEQUANTIZED
    if row_count <= MAX_GEMV_ROWS:
        return ProductKernel.GEMV
    return ProductKernel.NARROW if row_count <= MAX_NARROW_ROWS else ProductKernel.WIDE


def count_splits(in_size: int, out_size: int) -> int:
    """Counts the splits of the inputs. It depends on the weight alone, so that no row can change another's."""
    splits, tiles = 1, -(-out_size // NARROW.out_count)
    while splits < MAX_SPLITS and splits * tiles < WANTED_PROGRAMS and in_size >= 2 * splits * MIN_SPLIT:
        splits *= 2
    return splits


def multiply(
    weight: PackedCodes,
    inputs: Tensor,
    bias: Tensor | None = None,
    residual: Tensor | None = None,
    kernel: ProductKernel | None = None,
) -> Tensor:
    """Multiplies inputs [rows, in] of fp32, fp16 or bf16. Returns [rows, out] of the same type: the product, plus
    `bias` [out], plus `residual` [rows, out], rounded once. DEQUANTIZED also rounds the weight to that type, and
    `bias` plus `residual` where there are both, and leaves the order of reduction to torch."""
    if not len(inputs):
        return inputs.new_empty((0, weight.out_size))
    ordered = inputs if weight.input_order is None else inputs.index_select(1, weight.input_order)
    ordered = ordered.contiguous()
    chosen = kernel or choose_kernel(len(inputs))
    if chosen is ProductKernel.DEQUANTIZED:
        return _multiply_numbers(ordered, dequantize(weight, inputs.dtype), bias, residual)
    splits = count_splits(weight.in_size, weight.out_size)
    partials = _partials(weight, ordered, splits, chosen)
    return sum_splits(partials, inputs.dtype, bias, None if residual is None else residual.contiguous())


def _partials(weight: PackedCodes, inputs: Tensor, splits: int, kernel: ProductKernel) -> Tensor:
    if kernel is ProductKernel.GEMV:
        return multiply_rows(weight, inputs, splits)
    return multiply_tiles(weight, inputs, splits, NARROW if kernel is ProductKernel.NARROW else WIDE)


def _multiply_numbers(inputs: Tensor, weight: Tensor, bias: Tensor | None, residual: Tensor | None) -> Tensor:
    added = [each.to(inputs.dtype) for each in (bias, residual) if each is not None]
    if not added:
        return inputs @ weight
    return torch.addmm(added[0] if len(added) == 1 else added[0] + added[1], inputs, weight)
