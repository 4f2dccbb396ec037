"""The sum of the splits of a product, with bias and residual."""

import torch
import triton
import triton.language as tl
from torch import Tensor

BLOCK = 256
WARP_COUNT = 4


@triton.jit(do_not_specialize=["row_count", "split_count"])
def split_sum_kernel(
    partials,
    bias,
    residual,
    outputs,
    row_count,
    out_size,
    split_count,
    has_bias: tl.constexpr,
    has_residual: tl.constexpr,
    block: tl.constexpr,
):
    """Sums `block` outputs of one row. Grid: rows, blocks of outputs."""
    row = tl.program_id(0).to(tl.int64)
    columns = tl.program_id(1) * block + tl.arange(0, block)
    is_column = columns < out_size
    place = row * out_size + columns
    sums = tl.zeros((block,), tl.float32)
    for split in range(split_count):
        offset = tl.cast(split, tl.int64) * row_count * out_size
        sums += tl.load(partials + offset + place, mask=is_column, other=0.0)
    if has_bias:
        sums += tl.load(bias + columns, mask=is_column, other=0.0).to(tl.float32)
    if has_residual:
        sums += tl.load(residual + place, mask=is_column, other=0.0).to(tl.float32)
    tl.store(outputs + place, sums.to(outputs.dtype.element_ty), mask=is_column)


def sum_splits(partials: Tensor, dtype: torch.dtype, bias: Tensor | None, residual: Tensor | None) -> Tensor:
    """Sums partials fp32 [splits, rows, out] in the order of splits, adds bias [out], then residual [rows, out], and
    rounds once. Returns [rows, out] of `dtype`."""
    split_count, row_count, out_size = partials.shape
    outputs = torch.empty((row_count, out_size), dtype=dtype, device=partials.device)
    grid = (row_count, triton.cdiv(out_size, BLOCK))
    split_sum_kernel[grid](
        partials,
        partials if bias is None else bias,
        partials if residual is None else residual,
        outputs,
        row_count,
        out_size,
        split_count,
        has_bias=bias is not None,
        has_residual=residual is not None,
        block=BLOCK,
        num_warps=WARP_COUNT,
    )
    return outputs
