"""The gate of SwiGLU (Shazeer, 2020): SiLU of one half of a row, times the other."""

import torch
import triton
import triton.language as tl
from torch import Tensor

BLOCK = 1024
WARP_COUNT = 4


@triton.jit
def gated_silu_kernel(inputs, outputs, size, block: tl.constexpr):
    """Computes `block` numbers of one row. Grid: rows, blocks."""
    row = tl.program_id(0).to(tl.int64)
    places = tl.program_id(1) * block + tl.arange(0, block)
    is_place = places < size
    gates = tl.load(inputs + row * 2 * size + places, mask=is_place, other=0.0).to(tl.float32)
    factors = tl.load(inputs + (row * 2 + 1) * size + places, mask=is_place, other=0.0).to(tl.float32)
    numbers = gates / (1 + tl.exp(-gates)) * factors
    tl.store(outputs + row * size + places, numbers.to(outputs.dtype.element_ty), mask=is_place)


def gate_silu(inputs: Tensor) -> Tensor:
    """Maps contiguous inputs [rows, 2 x size], gates before factors, to [rows, size] of the same type. Nothing is
    reduced; the product is rounded once."""
    size = inputs.shape[1] // 2
    outputs = torch.empty((len(inputs), size), dtype=inputs.dtype, device=inputs.device)
    if len(inputs):
        grid = (len(inputs), triton.cdiv(size, BLOCK))
        gated_silu_kernel[grid](inputs, outputs, size, block=BLOCK, num_warps=WARP_COUNT)
    return outputs
