"""Choice among the kernels that multiply quantized weights, and the whole product."""

from enum import Enum

import torch
from torch import Tensor

from headrace.engine.triton.dequantization import dequantize
from headrace.engine.triton.packed_codes import PackedCodes
from headrace.engine.triton.quantized_matmul import multiply_tiles
from headrace.engine.triton.split_sum import sum_splits
from headrace.engine.triton.tile_choice import USUAL, Tile, TileChoice, choose_tiles, count_multiprocessors


class ProductKernel(Enum):
    """Kernels of a product. A row's bits are the same in any batch that takes the same one."""

    NARROW = "narrow"
    MIDDLE = "middle"
    WIDE = "wide"
    DEQUANTIZED = "dequantized"


def choose_kernel(row_count: int, max_tiled_rows: int | None = None, tiles: TileChoice = USUAL) -> ProductKernel:
    """Chooses by rows alone: the usual tiles are of 16 rows up to 16, of 32 up to 32, of 64 for more, and above
    `max_tiled_rows` the weight is dequantized. From one kernel to the next the last bits of a row may change; whoever
    needs them not to names one kernel for all."""
    if max_tiled_rows is not None and row_count > max_tiled_rows:
        return ProductKernel.DEQUANTIZED
    if row_count <= tiles.max_narrow_rows:
        return ProductKernel.NARROW
    return ProductKernel.MIDDLE if row_count <= tiles.max_middle_rows else ProductKernel.WIDE


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
    tiles = choose_tiles(inputs.device)
    chosen = kernel or choose_kernel(len(inputs), tiles=tiles)
    if chosen is ProductKernel.DEQUANTIZED:
        return _multiply_numbers(ordered, dequantize(weight, inputs.dtype), bias, residual)
    tile = _tile_of(chosen, tiles, inputs.dtype)
    splits = tiles.count_splits(weight.in_size, weight.out_size, tile, count_multiprocessors(inputs.device))
    partials = multiply_tiles(weight, ordered, splits, tile)
    return sum_splits(partials, inputs.dtype, bias, None if residual is None else residual.contiguous())


def _tile_of(kernel: ProductKernel, tiles: TileChoice, dtype: torch.dtype) -> Tile:
    # Sums in fp32 have no tensor cores: more rows would not fit the registers.
    if kernel is ProductKernel.NARROW or dtype is torch.float32:
        return tiles.narrow
    return tiles.middle if kernel is ProductKernel.MIDDLE else tiles.wide


def _multiply_numbers(inputs: Tensor, weight: Tensor, bias: Tensor | None, residual: Tensor | None) -> Tensor:
    added = [each.to(inputs.dtype) for each in (bias, residual) if each is not None]
    if not added:
        return inputs @ weight
    return torch.addmm(added[0] if len(added) == 1 else added[0] + added[1], inputs, weight)
