"""Choice among the kernels that multiply quantized weights, and the whole product."""

from enum import Enum

import torch
from torch import Tensor

from headrace.engine.triton.gated_activation import sum_and_gate
from headrace.engine.triton.products.dequantization import dequantize
from headrace.engine.triton.products.packed_codes import PackedCodes
from headrace.engine.triton.products.quantized_matmul import multiply_and_gate, multiply_tiles
from headrace.engine.triton.products.tile_choice import USUAL, Tile, TileChoice, choose_tiles, count_multiprocessors
from headrace.engine.triton.split_sum import SplitRows, sum_splits


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
    tiles = choose_tiles(inputs.device)
    chosen = kernel or choose_kernel(len(inputs), tiles=tiles)
    if chosen is ProductKernel.DEQUANTIZED:
        return _multiply_numbers(_ordered(weight, inputs), dequantize(weight, inputs.dtype), bias, residual)
    rows = split_product(weight, inputs, bias, chosen)
    return sum_splits(rows, None if residual is None else residual.contiguous())


def split_product(weight: PackedCodes, inputs: Tensor, bias: Tensor | None, kernel: ProductKernel) -> SplitRows:
    """Multiplies inputs [rows, in], as `multiply` does through a kernel with tiles, and leaves the sum to the next
    kernel."""
    tile, split_count = _plan(weight, inputs, kernel)
    return SplitRows(multiply_tiles(weight, _ordered(weight, inputs), split_count, tile), bias, inputs.dtype)


def gated_product(weight: PackedCodes, inputs: Tensor, activation: str, kernel: ProductKernel) -> Tensor:
    """Multiplies inputs [rows, in] with gates before factors, activates the gates and multiplies both, all in one
    launch where the inputs of the weight are not split. Returns [rows, out / 2], the bits of the product and
    `gate_rows`."""
    tile, split_count = _plan(weight, inputs, kernel)
    if split_count == 1:
        return multiply_and_gate(weight, _ordered(weight, inputs), activation, tile)
    return sum_and_gate(split_product(weight, inputs, None, kernel), activation)


def _plan(weight: PackedCodes, inputs: Tensor, kernel: ProductKernel) -> tuple[Tile, int]:
    """Returns the tile of a kernel, and the splits of the inputs."""
    tiles = choose_tiles(inputs.device)
    tile = _tile_of(kernel, tiles, inputs.dtype)
    return tile, tiles.count_splits(weight.in_size, weight.out_size, tile, count_multiprocessors(inputs.device))


def _ordered(weight: PackedCodes, inputs: Tensor) -> Tensor:
    """Sorts inputs as the weight is."""
    ordered = inputs if weight.input_order is None else inputs.index_select(1, weight.input_order)
    return ordered.contiguous()


def tile_of(row_count: int, device: torch.device, dtype: torch.dtype) -> Tile:
    """Returns the tile of so many rows of inputs of `dtype`, packed weights for any number of them."""
    tiles = choose_tiles(device)
    return _tile_of(choose_kernel(row_count, tiles=tiles), tiles, dtype)


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
