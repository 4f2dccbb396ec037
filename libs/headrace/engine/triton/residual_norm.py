"""Root mean square layer normalization (Zhang and Sennrich, 2019), with the addition that comes before it."""

import torch
import triton
import triton.language as tl
from torch import Tensor

WARP_COUNT = 8


@triton.jit
def residual_norm_kernel(
    inputs,
    residual,
    weight,
    outputs,
    epsilon,
    size: tl.constexpr,
    padded_size: tl.constexpr,
    has_residual: tl.constexpr,
):
    """Normalizes one row, and keeps its sum with the residual. Grid: rows."""
    places = tl.arange(0, padded_size)
    is_place = places < size
    row = tl.program_id(0).to(tl.int64) * size + places
    numbers = tl.load(inputs + row, mask=is_place, other=0.0).to(tl.float32)
    if has_residual:
        numbers += tl.load(residual + row, mask=is_place, other=0.0).to(tl.float32)
        rounded = numbers.to(residual.dtype.element_ty)
        tl.store(residual + row, rounded, mask=is_place)
        numbers = rounded.to(tl.float32)
    scale = 1 / tl.sqrt(tl.sum(numbers * numbers, axis=0) / size + epsilon)
    factors = tl.load(weight + places, mask=is_place, other=0.0).to(tl.float32)
    tl.store(outputs + row, (numbers * scale * factors).to(outputs.dtype.element_ty), mask=is_place)


def normalize(inputs: Tensor, weight: Tensor, epsilon: float, residual: Tensor | None = None) -> Tensor:
    """Normalizes the rows of contiguous inputs [rows, size], after adding them to `residual` [rows, size] in place.
    Returns the shape and type of the inputs. The order of reduction is that of `tl.sum` over one row: it depends on the
    size alone."""
    outputs = torch.empty_like(inputs)
    if not len(inputs):
        return outputs
    residual_norm_kernel[(len(inputs),)](
        inputs,
        inputs if residual is None else residual,
        weight,
        outputs,
        epsilon,
        size=inputs.shape[1],
        padded_size=triton.next_power_of_2(inputs.shape[1]),
        has_residual=residual is not None,
        num_warps=WARP_COUNT,
    )
    return outputs
