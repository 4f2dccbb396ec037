"""Products whose inputs are split: rows that are sums of several, and their sums, with bias and residual."""

from dataclasses import dataclass

import torch
import triton
import triton.language as tl
from torch import Tensor

BLOCK = 256
WARP_COUNT = 4


@dataclass(frozen=True, slots=True)
class SplitRows:
    """Rows that the next kernel sums as it reads them: in the order of splits, then the bias, rounded once."""

    partials: Tensor
    """Sums of each split, fp32 [splits, rows, size]."""
    bias: Tensor | None
    """Numbers that each row has besides [size]."""
    dtype: torch.dtype
    """Type that the sums are rounded to."""

    @property
    def split_count(self) -> int:
        return self.partials.shape[0]

    @property
    def row_count(self) -> int:
        return self.partials.shape[1]

    @property
    def size(self) -> int:
        return self.partials.shape[2]


@triton.jit
def sum_of_splits(
    partials, bias, place, column, is_column, split_size, split_count: tl.constexpr, has_bias: tl.constexpr
):
    """Sums numbers in fp32. `place` are their places among those of a split, `column` those in `bias`. The number of
    splits is known to the compiler, so that all are asked for before the first one is added."""
    sums = tl.load(partials + place, mask=is_column, other=0.0)
    for split in tl.static_range(1, split_count):
        sums += tl.load(partials + split * split_size + place, mask=is_column, other=0.0)
    if has_bias:
        sums += tl.load(bias + column, mask=is_column, other=0.0).to(tl.float32)
    return sums


@triton.jit(do_not_specialize=["row_count"])
def split_sum_kernel(
    partials,
    bias,
    residual,
    outputs,
    row_count,
    out_size,
    split_count: tl.constexpr,
    has_bias: tl.constexpr,
    has_residual: tl.constexpr,
    block: tl.constexpr,
):
    """Sums `block` outputs of one row. Grid: rows, blocks of outputs."""
    columns = tl.program_id(1) * block + tl.arange(0, block)
    is_column = columns < out_size
    place = tl.program_id(0).to(tl.int64) * out_size + columns
    split_size = tl.cast(row_count, tl.int64) * out_size
    sums = sum_of_splits(partials, bias, place, columns, is_column, split_size, split_count, has_bias)
    if has_residual:
        sums += tl.load(residual + place, mask=is_column, other=0.0).to(tl.float32)
    tl.store(outputs + place, sums.to(outputs.dtype.element_ty), mask=is_column)


def sum_splits(rows: SplitRows, residual: Tensor | None) -> Tensor:
    """Sums rows, adds contiguous `residual` [rows, size] last, and rounds once. Returns [rows, size]."""
    outputs = torch.empty((rows.row_count, rows.size), dtype=rows.dtype, device=rows.partials.device)
    grid = (rows.row_count, triton.cdiv(rows.size, BLOCK))
    split_sum_kernel[grid](
        rows.partials,
        rows.partials if rows.bias is None else rows.bias,
        rows.partials if residual is None else residual,
        outputs,
        rows.row_count,
        rows.size,
        split_count=rows.split_count,
        has_bias=rows.bias is not None,
        has_residual=residual is not None,
        block=BLOCK,
        num_warps=WARP_COUNT,
    )
    return outputs
