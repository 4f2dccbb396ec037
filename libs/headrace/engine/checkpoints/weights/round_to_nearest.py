"""Quantizes a weight by rounding each value to the nearest code, without calibration data."""

import torch
from torch import Tensor

from headrace.engine.checkpoints.weights.quantized_matrix import QuantizedMatrix

MIN_SCALE = 1e-8
ROWS = 4096
"""Rows quantized at a time: intermediate results take several times the memory of the weight, which may have a row for
each of a hundred thousand tokens."""


def choose_grid(weight: Tensor, bits: int, group_size: int, symmetric: bool) -> tuple[Tensor, Tensor]:
    """Chooses scales and zero points [out, groups] whose codes cover each group's values.

    Scales are rounded to fp16, which the formats store. Symmetric grids have the middle code as their zero.
    """
    groups = weight.reshape(len(weight), -1, group_size)
    top = (1 << bits) - 1
    if symmetric:
        scales = 2 * groups.abs().amax(dim=-1) / top
        zeros = torch.full_like(scales, 1 << (bits - 1))
    else:
        low = groups.amin(dim=-1).clamp(max=0)
        high = groups.amax(dim=-1).clamp(min=0)
        scales = (high - low) / top
        zeros = torch.round(-low / scales.clamp(min=MIN_SCALE)).clamp(0, top)
    return scales.clamp(min=MIN_SCALE).half().float().clamp(min=torch.finfo(torch.float16).tiny), zeros


def round_to_grid(weight: Tensor, scales: Tensor, zeros: Tensor, bits: int) -> Tensor:
    """Returns the nearest codes, uint8. `scales` and `zeros` have the shape of `weight` or broadcast to it."""
    return torch.clamp(torch.round(weight / scales) + zeros, 0, (1 << bits) - 1).to(torch.uint8)


def quantize(weight: Tensor, bits: int, group_size: int, symmetric: bool) -> QuantizedMatrix:
    """Quantizes `weight` [out, in], whose input size is a multiple of `group_size`."""
    parts = [_quantize_rows(rows.float(), bits, group_size, symmetric) for rows in torch.split(weight, ROWS)]
    codes, scales, zeros = (torch.cat(tensors) for tensors in zip(*parts, strict=True))
    return QuantizedMatrix(codes, scales, zeros, bits, group_size)


def _quantize_rows(weight: Tensor, bits: int, group_size: int, symmetric: bool) -> tuple[Tensor, Tensor, Tensor]:
    """Quantizes rows to codes, scales and zeros, see QuantizedMatrix."""
    scales, zeros = choose_grid(weight, bits, group_size, symmetric)
    codes = round_to_grid(weight, scales.repeat_interleave(group_size, 1), zeros.repeat_interleave(group_size, 1), bits)
    return codes, scales, zeros.to(torch.uint8)
