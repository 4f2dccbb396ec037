"""Products with weights in 4 bits: our kernels, cuBLAS on dequantized weights, and torch's int4 product."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from tests.benchmarks.gpu.contest import OURS, Computation, Contender, Contest
from torch import Tensor

from headrace.engine.checkpoints.weights import round_to_nearest
from headrace.engine.checkpoints.weights.quantized_matrix import QuantizedMatrix
from headrace.engine.triton.products.packed_codes import PackedCodes
from headrace.engine.triton.products.quantized_product import ProductKernel, multiply
from headrace.planning.roofline import Launch

KIND = "Products with weights in 4 bits"
CUBLAS = "cuBLAS, dequantized before"
DEQUANTIZED = "dequantize and cuBLAS"
TINYGEMM = "torch int4 (tinygemm)"
TILED = (ProductKernel.NARROW, ProductKernel.MIDDLE, ProductKernel.WIDE)
"""Kernels that take part at any number of rows, so that each one's best is seen."""
INNER_TILES = 8
BITS, GROUP = 4, 128
SCALE_BYTES = 5
"""Scale and zero point of a group in our layout."""


@dataclass(frozen=True, slots=True)
class ProductSize:
    """Sizes of a weight [out, in]."""

    out_size: int
    in_size: int
    group_size: int = GROUP

    @property
    def packed_bytes(self) -> float:
        groups = self.out_size * -(-self.in_size // self.group_size)
        return self.out_size * self.in_size * BITS / 8 + groups * SCALE_BYTES


def list_products(size: ProductSize, row_counts: tuple[int, ...], device: torch.device) -> Iterator[Contest]:
    """Makes a contest for each number of rows over one random weight, in bf16."""
    plain = torch.randn(size.out_size, size.in_size, generator=torch.Generator().manual_seed(0)) * 0.02
    matrix = round_to_nearest.quantize(plain, BITS, size.group_size, symmetric=False).to(device)
    packed = pack(matrix)
    for row_count in row_counts:
        inputs = torch.randn(row_count, size.in_size, generator=torch.Generator().manual_seed(row_count))
        yield make_contest(size, matrix, packed, inputs.to(device, torch.bfloat16))


def make_contest(size: ProductSize, matrix: QuantizedMatrix, packed: PackedCodes, inputs: Tensor) -> Contest:
    """Makes the contest of one product."""
    row_count = len(inputs)
    exact, moved = matrix.dequantize(), row_count * (size.in_size + size.out_size) * inputs.itemsize
    operations = 2.0 * row_count * size.out_size * size.in_size
    plain_bytes = size.out_size * size.in_size * inputs.itemsize
    small, plain = Launch(size.packed_bytes + moved, operations), Launch(plain_bytes + moved, operations)
    both = Launch(size.packed_bytes + 2 * plain_bytes + moved, operations)
    ours = [Contender(f"{OURS} {kernel.value}", _ours(packed, inputs, kernel), small) for kernel in TILED]
    peers = [
        Contender(DEQUANTIZED, _ours(packed, inputs, ProductKernel.DEQUANTIZED), both),
        Contender(CUBLAS, lambda: _plain(exact.to(inputs.dtype), inputs), plain),
        Contender(TINYGEMM, lambda: make_tinygemm(matrix, inputs), small),
    ]
    name = f"[{size.out_size}, {size.in_size}]"
    return Contest(KIND, name, row_count, "bfloat16", lambda: inputs.float() @ exact.T, (*ours, *peers))


def pack(matrix: QuantizedMatrix) -> PackedCodes:
    """Packs a matrix as a worker does when it loads one."""
    return PackedCodes.of(matrix.codes, matrix.scales, matrix.zeros, matrix.bits, matrix.group_size, matrix.input_order)


def make_tinygemm(matrix: QuantizedMatrix, inputs: Tensor) -> Computation:
    """Packs a matrix for torch's int4 product, whose weights are (code - 8) * scale + zero in bf16."""
    scales = matrix.scales.T.to(torch.bfloat16)
    zeros = ((8 - matrix.zeros.float()) * matrix.scales).T.to(torch.bfloat16)
    grid = torch.stack([scales, zeros], dim=-1).contiguous()
    size = matrix.group_size
    if inputs.device.type == "cpu":
        packed = torch.ops.aten._convert_weight_to_int4pack_for_cpu(matrix.codes.int(), 1)
        return lambda: torch.ops.aten._weight_int4pack_mm_for_cpu(inputs, packed, size, grid)
    pairs = (matrix.codes[:, ::2] << 4) | matrix.codes[:, 1::2]
    words = torch.ops.aten._convert_weight_to_int4pack(pairs.contiguous(), INNER_TILES)
    return lambda: torch.ops.aten._weight_int4pack_mm(inputs, words, size, grid)


def _ours(packed: PackedCodes, inputs: Tensor, kernel: ProductKernel) -> Callable[[], Computation]:
    return lambda: lambda: multiply(packed, inputs, kernel=kernel)


def _plain(weight: Tensor, inputs: Tensor) -> Computation:
    return lambda: torch.nn.functional.linear(inputs, weight)
