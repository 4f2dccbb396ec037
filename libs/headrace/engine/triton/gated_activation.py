"""The gates of SwiGLU and GeGLU (Shazeer, 2020): one half of a row activated, times the other."""

import torch
import triton
import triton.language as tl
from torch import Tensor

from headrace.engine.triton.split_sum import SplitRows, sum_of_splits

BLOCK = 1024
WARP_COUNT = 4
CLAMP = tl.constexpr(7.0)
"""Largest gate, and size of a factor, of `clamped_swish`."""


@triton.jit
def activated(gates, activation: tl.constexpr):
    """Activates numbers in fp32."""
    if activation == "silu":
        active = gates / (1 + tl.exp(-gates))
    elif activation == "gelu":
        active = 0.5 * gates * (1 + tl.erf(gates * 0.7071067811865476))
    elif activation == "gelu_tanh":
        # 0.5 * (1 + tanh(x)) is the logistic function of 2x; the first factor is twice the root of 2 / pi.
        exponent = -1.5957691216057308 * (gates + 0.044715 * gates * gates * gates)
        active = gates / (1 + tl.exp(tl.minimum(exponent, 80.0)))
    elif activation == "clamped_swish":
        low = tl.minimum(gates, CLAMP)
        active = low / (1 + tl.exp(low * -1.702))
    else:
        active = tl.where(gates <= 0, 0.0, gates)
    return active


@triton.jit
def raised(factors, activation: tl.constexpr):
    """Prepares what activated gates are multiplied by."""
    if activation == "clamped_swish":
        factors = tl.minimum(tl.maximum(factors, -CLAMP), CLAMP) + 1
    return factors


@triton.jit(do_not_specialize=["row_count"])
def gated_activation_kernel(
    inputs,
    bias,
    outputs,
    row_count,
    size,
    activation: tl.constexpr,
    split_count: tl.constexpr,
    has_bias: tl.constexpr,
    block: tl.constexpr,
):
    """Computes `block` numbers of one row. Grid: rows, blocks."""
    row = tl.program_id(0).to(tl.int64)
    places = tl.program_id(1) * block + tl.arange(0, block)
    is_place = places < size
    place = row * 2 * size + places
    if split_count > 0:
        split_size = tl.cast(row_count, tl.int64) * 2 * size
        gates = sum_of_splits(inputs, bias, place, places, is_place, split_size, split_count, has_bias)
        factors = sum_of_splits(inputs, bias, place + size, places + size, is_place, split_size, split_count, has_bias)
        # Rounded as if they had been written.
        gates = gates.to(outputs.dtype.element_ty).to(tl.float32)
        factors = factors.to(outputs.dtype.element_ty).to(tl.float32)
    else:
        gates = tl.load(inputs + place, mask=is_place, other=0.0).to(tl.float32)
        factors = tl.load(inputs + place + size, mask=is_place, other=0.0).to(tl.float32)
    gated = activated(gates, activation) * raised(factors, activation)
    tl.store(outputs + row * size + places, gated.to(outputs.dtype.element_ty), mask=is_place)


def gate_rows(inputs: Tensor, activation: str) -> Tensor:
    """Maps contiguous inputs [rows, 2 x size], gates before factors, to [rows, size] of the same type. `activation` is
    silu, gelu, gelu_tanh, relu or clamped_swish. Nothing is reduced; the product is rounded once."""
    outputs = torch.empty((len(inputs), inputs.shape[1] // 2), dtype=inputs.dtype, device=inputs.device)
    if len(inputs):
        _launch(inputs, None, outputs, activation, 0)
    return outputs


def sum_and_gate(rows: SplitRows, activation: str) -> Tensor:
    """Sums rows of 2 x size and rounds them, then does as `gate_rows`."""
    outputs = torch.empty((rows.row_count, rows.size // 2), dtype=rows.dtype, device=rows.partials.device)
    if rows.row_count:
        _launch(rows.partials, rows.bias, outputs, activation, rows.split_count)
    return outputs


def _launch(inputs: Tensor, bias: Tensor | None, outputs: Tensor, activation: str, split_count: int) -> None:
    row_count, size = outputs.shape
    gated_activation_kernel[(row_count, triton.cdiv(size, BLOCK))](
        inputs,
        inputs if bias is None else bias,
        outputs,
        row_count,
        size,
        activation=activation,
        split_count=split_count,
        has_bias=bias is not None,
        block=BLOCK,
        num_warps=WARP_COUNT,
    )
