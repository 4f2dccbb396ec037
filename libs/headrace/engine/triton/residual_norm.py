"""Root mean square layer normalization (Zhang and Sennrich, 2019), with the sums that come before it."""

import torch
import triton
import triton.language as tl
from torch import Tensor

from headrace.engine.triton.split_sum import SplitRows, sum_of_splits

WARP_COUNT = 8


@triton.jit(do_not_specialize=["row_count"])
def residual_norm_kernel(
    inputs,
    bias,
    residual,
    weight,
    sums,
    outputs,
    epsilon,
    row_count,
    size: tl.constexpr,
    padded_size: tl.constexpr,
    split_count: tl.constexpr,
    has_bias: tl.constexpr,
):
    """Normalizes one row. Of a split one, it keeps the sum with the residual. Grid: rows."""
    places = tl.arange(0, padded_size)
    is_place = places < size
    row = tl.program_id(0).to(tl.int64) * size + places
    if split_count > 0:
        split_size = tl.cast(row_count, tl.int64) * size
        numbers = sum_of_splits(inputs, bias, row, places, is_place, split_size, split_count, has_bias)
        numbers += tl.load(residual + row, mask=is_place, other=0.0).to(tl.float32)
        rounded = numbers.to(sums.dtype.element_ty)
        tl.store(sums + row, rounded, mask=is_place)
        numbers = rounded.to(tl.float32)
    else:
        numbers = tl.load(inputs + row, mask=is_place, other=0.0).to(tl.float32)
    scale = 1 / tl.sqrt(tl.sum(numbers * numbers, axis=0) / size + epsilon)
    factors = tl.load(weight + places, mask=is_place, other=0.0).to(tl.float32)
    tl.store(outputs + row, (numbers * scale * factors).to(outputs.dtype.element_ty), mask=is_place)


def normalize(inputs: Tensor, weight: Tensor, epsilon: float) -> Tensor:
    """Normalizes the rows of contiguous inputs [rows, size]. Returns their shape and type. The order of reduction is
    that of `tl.sum` over one row: it depends on the size alone."""
    outputs = torch.empty_like(inputs)
    if len(inputs):
        _launch(inputs, None, None, weight, outputs, outputs, epsilon, 0)
    return outputs


def add_and_normalize(rows: SplitRows, residual: Tensor, weight: Tensor, epsilon: float) -> tuple[Tensor, Tensor]:
    """Adds rows to contiguous `residual` [rows, size], as `sum_splits` does, and normalizes the rounded sums. Returns
    both, in the shape and type of the residual."""
    sums, outputs = torch.empty_like(residual), torch.empty_like(residual)
    if len(residual):
        _launch(rows.partials, rows.bias, residual, weight, sums, outputs, epsilon, rows.split_count)
    return sums, outputs


def _launch(
    inputs: Tensor,
    bias: Tensor | None,
    residual: Tensor | None,
    weight: Tensor,
    sums: Tensor,
    outputs: Tensor,
    epsilon: float,
    split_count: int,
) -> None:
    row_count, size = outputs.shape
    residual_norm_kernel[(row_count,)](
        inputs,
        inputs if bias is None else bias,
        inputs if residual is None else residual,
        weight,
        sums,
        outputs,
        epsilon,
        row_count,
        size=size,
        padded_size=triton.next_power_of_2(size),
        split_count=split_count,
        has_bias=bias is not None,
        num_warps=WARP_COUNT,
    )
