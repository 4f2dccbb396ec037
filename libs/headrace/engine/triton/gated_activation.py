"""The gates of SwiGLU and GeGLU (Shazeer, 2020): one half of a row activated, times the other."""

import torch
import triton
import triton.language as tl
from torch import Tensor

BLOCK = 1024
WARP_COUNT = 4


@triton.jit
def gated_activation_kernel(inputs, outputs, size, activation: tl.constexpr, block: tl.constexpr):
    """Computes `block` numbers of one row. Grid: rows, blocks."""
    row = tl.program_id(0).to(tl.int64)
    places = tl.program_id(1) * block + tl.arange(0, block)
    is_place = places < size
    gates = tl.load(inputs + row * 2 * size + places, mask=is_place, other=0.0).to(tl.float32)
    factors = tl.load(inputs + (row * 2 + 1) * size + places, mask=is_place, other=0.0).to(tl.float32)
    if activation == "silu":
        active = gates / (1 + tl.exp(-gates))
    elif activation == "gelu":
        active = 0.5 * gates * (1 + tl.erf(gates * 0.7071067811865476))
    elif activation == "gelu_tanh":
        # 0.5 * (1 + tanh(x)) is the logistic function of 2x; the first factor is twice the root of 2 / pi.
        exponent = -1.5957691216057308 * (gates + 0.044715 * gates * gates * gates)
        active = gates / (1 + tl.exp(tl.minimum(exponent, 80.0)))
    else:
        active = tl.where(gates <= 0, 0.0, gates)
    tl.store(outputs + row * size + places, (active * factors).to(outputs.dtype.element_ty), mask=is_place)


def gate_rows(inputs: Tensor, activation: str) -> Tensor:
    """Maps contiguous inputs [rows, 2 x size], gates before factors, to [rows, size] of the same type. `activation` is
    silu, gelu, gelu_tanh or relu. Nothing is reduced; the product is rounded once."""
    size = inputs.shape[1] // 2
    outputs = torch.empty((len(inputs), size), dtype=inputs.dtype, device=inputs.device)
    if len(inputs):
        grid = (len(inputs), triton.cdiv(size, BLOCK))
        gated_activation_kernel[grid](inputs, outputs, size, activation=activation, block=BLOCK, num_warps=WARP_COUNT)
    return outputs
