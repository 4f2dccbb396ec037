"""Tiles of a product that have gates in one half of their outputs, and their factors in the other."""

import triton
import triton.language as tl

from headrace.engine.triton.gated_activation import activated, raised


@triton.jit
def gated_columns(out_size, block_out: tl.constexpr):
    """Returns the outputs of a tile and which of them there are: gates of the second axis of the grid, then their
    factors, which follow all gates."""
    lane, half = tl.arange(0, block_out), block_out // 2
    pair = tl.program_id(1) * half + lane % half
    return pair + lane // half * (out_size // 2), pair < out_size // 2


@triton.jit
def store_gated(sums, outputs, rows, is_row, out_size, activation: tl.constexpr, block_out: tl.constexpr):
    """Rounds sums [outputs, rows], gates before factors, activates the gates, and writes the products."""
    block_rows: tl.constexpr = sums.shape[1]
    halves = tl.reshape(sums.to(outputs.dtype.element_ty).to(tl.float32), (2, block_out // 2, block_rows))
    gates, factors = tl.split(tl.permute(halves, (1, 2, 0)))
    gated = activated(gates, activation) * raised(factors, activation)
    columns = tl.program_id(1) * (block_out // 2) + tl.arange(0, block_out // 2)
    place = rows[None, :] * out_size + columns[:, None]
    is_pair = is_row[None, :] & (columns < out_size)[:, None]
    tl.store(outputs + place, gated.to(outputs.dtype.element_ty), mask=is_pair)
