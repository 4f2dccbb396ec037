"""Weights that are rounded while they are packed have the bits of those that torch rounds, on every instruction set."""

import math

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from tests.libs.engine.needed_kernels import needs_kernels
from torch import Tensor

from headrace.engine.checkpoints.packing.tensor_packing import pack, stored
from headrace.engine.checkpoints.weights import round_to_nearest
from headrace.engine.kernels.library import Instructions, available
from headrace.engine.kernels.packed_weight import PANELS_PER_TASK, PackedWeight, pack_rounded
from headrace.engine.kernels.storage import Storage

pytestmark = needs_kernels

STORAGES = {4: Storage.U4, 8: Storage.U8}
ROWS = PANELS_PER_TASK * 16 + 7
"""More than one task, and no whole number of panels."""


def weights(name: str) -> Tensor:
    generator = torch.Generator().manual_seed(len(name))
    numbers = torch.randn(ROWS, 256, generator=generator)
    return {
        "normal": numbers,
        "zero": torch.zeros(3, 256),
        "tiny": numbers * 1e-9,
        "huge": numbers * 1e5,
        "positive": numbers.abs() + 1,
        "negative": -numbers.abs() - 1,
        "bfloat16": numbers.bfloat16(),
        "float16": numbers.half(),
    }[name]


def packed(
    weight: Tensor, bits: int, group: int, rows: NDArray[np.int64], instructions: Instructions = Instructions.PORTABLE
) -> PackedWeight:
    parts, storage = [stored(part)[0] for part in weight.tensor_split(3)], stored(weight)[1]
    return pack_rounded(parts, storage, STORAGES[bits], group, rows, instructions)


@pytest.mark.parametrize("name", ["normal", "zero", "tiny", "huge", "positive", "negative", "bfloat16", "float16"])
@pytest.mark.parametrize(("bits", "group"), [(4, 128), (4, 32), (8, 64), (8, 128)])
def test_the_bits_are_torchs(name: str, bits: int, group: int) -> None:
    weight = weights(name)
    rows = np.random.default_rng(0).permutation(np.arange(-1, len(weight)))
    expected = pack(round_to_nearest.quantize(weight.float(), bits, group, symmetric=False), rows=rows.tolist())
    for instructions in available():
        found = packed(weight, bits, group, rows, instructions)
        assert np.array_equal(found.panels, expected.panels), instructions
        assert (found.out_size, found.in_size, found.group) == (len(rows), 256, group)


@pytest.mark.parametrize("values", [(math.nan, 1), (math.inf, 1), (-math.inf, 1), (math.inf, -math.inf)])
@pytest.mark.parametrize("instructions", available())
def test_a_weight_that_is_no_number_is_not_hidden(instructions: Instructions, values: tuple[float, float]) -> None:
    """Infinite numbers leave no zero point, so that it is 0."""
    weight = torch.ones(16, 64)
    weight[5, 40:42] = torch.tensor(values)
    made = packed(weight, 4, 32, np.arange(16), instructions)
    groups = made.panels.reshape(2, 32 * 16 // 2 + 16 * 4)
    scales = np.ascontiguousarray(groups[:, 32 * 16 // 2 :]).view(np.float32)
    assert np.argwhere(~np.isfinite(scales)).tolist() == [[1, 5]]
    assert scales.view(np.uint32)[1, 5] & 255 == 0


def test_rows_that_are_not_there_are_refused() -> None:
    with pytest.raises(IndexError, match="rows 0 to 16"):
        packed(torch.ones(16, 64), 4, 32, np.arange(17))
