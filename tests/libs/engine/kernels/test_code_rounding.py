"""Weights that are rounded while they are packed have the bits of those that torch rounds, on every instruction set."""

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from tests.libs.engine.needed_kernels import needs_kernels
from torch import Tensor

from headrace.engine.checkpoints.weights import round_to_nearest
from headrace.engine.cpu.weights.packing import pack, stored
from headrace.engine.kernels import packed_weight
from headrace.engine.kernels.library import available
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


def packed(weight: Tensor, bits: int, group: int, rows: NDArray[np.int64]) -> PackedWeight:
    parts, storage = [stored(part)[0] for part in weight.tensor_split(3)], stored(weight)[1]
    return pack_rounded(parts, storage, STORAGES[bits], group, rows)


@pytest.mark.parametrize("name", ["normal", "zero", "tiny", "huge", "positive", "negative", "bfloat16", "float16"])
@pytest.mark.parametrize(("bits", "group"), [(4, 128), (4, 32), (8, 64), (8, 128)])
def test_the_bits_are_torchs(name: str, bits: int, group: int, monkeypatch: pytest.MonkeyPatch) -> None:
    weight = weights(name)
    rows = np.random.default_rng(0).permutation(np.arange(-1, len(weight)))
    expected = pack(round_to_nearest.quantize(weight.float(), bits, group, symmetric=False), rows=rows.tolist())
    for instructions in available():
        monkeypatch.setattr(packed_weight, "available", lambda only=instructions: [only])
        found = packed(weight, bits, group, rows)
        assert np.array_equal(found.panels, expected.panels), instructions
        assert (found.out_size, found.in_size, found.group) == (len(rows), 256, group)


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_a_weight_that_is_no_number_is_not_hidden(value: float) -> None:
    weight = torch.ones(16, 64)
    weight[5, 40] = value
    made = packed(weight, 4, 32, np.arange(16))
    groups = made.panels.reshape(2, 32 * 16 // 2 + 16 * 4)
    scales = np.ascontiguousarray(groups[:, 32 * 16 // 2 :]).view(np.float32)
    assert np.argwhere(~np.isfinite(scales)).tolist() == [[1, 5]]


def test_rows_that_are_not_there_are_refused() -> None:
    with pytest.raises(IndexError, match="rows 0 to 16"):
        packed(torch.ones(16, 64), 4, 32, np.arange(17))
