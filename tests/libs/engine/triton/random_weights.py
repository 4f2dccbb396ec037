"""Random quantized weights, and what they stand for."""

from dataclasses import dataclass

import torch
from torch import Tensor

from headrace.engine.checkpoints.weights.code_numbers import code_numbers
from headrace.engine.triton.products.packed_codes import PackedCodes

NO_NUMBER = 0x7F
"""Code of E4M3 that is no number, with either sign."""


@dataclass(frozen=True, slots=True)
class RandomWeight:
    packed: PackedCodes
    exact: Tensor
    """The weight [out, in] in fp64, in the order of the inputs."""


def make_weight(
    out_size: int,
    in_size: int,
    bits: int,
    group_size: int,
    *,
    symmetric: bool = False,
    has_order: bool = False,
    is_float: bool = False,
    has_offsets: bool = False,
    seed: int = 0,
) -> RandomWeight:
    generator = torch.Generator().manual_seed(out_size * in_size + bits + seed)
    grid = out_size, -(-in_size // group_size)
    codes = torch.randint(0, 1 << bits, (out_size, in_size), generator=generator, dtype=torch.uint8)
    scales = torch.rand(grid, generator=generator) * 0.1 + 0.01
    zeros = torch.randint(0, 1 << bits, grid, generator=generator, dtype=torch.uint8)
    if symmetric:
        zeros.fill_(1 << (bits - 1))
    if is_float:
        zeros.zero_()
        codes[(codes & NO_NUMBER) == NO_NUMBER] = 0
    if has_offsets:
        zeros = torch.rand(grid, generator=generator) - 0.5
    order = torch.randperm(in_size, generator=generator) if has_order else None
    groups = torch.arange(in_size) // group_size
    numbers = torch.from_numpy(code_numbers(bits, is_float=is_float)).double()
    if has_offsets:
        exact = numbers[codes.int()] * scales.double()[:, groups] + zeros.double()[:, groups]
    else:
        exact = (numbers[codes.int()] - numbers[zeros.int()][:, groups]) * scales.double()[:, groups]
    if order is not None:
        restored = torch.empty_like(exact)
        restored[:, order] = exact
        exact = restored
    return RandomWeight(PackedCodes.of(codes, scales, zeros, bits, group_size, order, is_float=is_float), exact)


def make_inputs(row_count: int, in_size: int, dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.randn(row_count, in_size, generator=torch.Generator().manual_seed(row_count)).to(dtype)
