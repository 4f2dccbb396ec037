"""Rounding with numpy gives the bits that rounding with torch gives."""

import numpy as np
import pytest
import torch
from torch import Tensor

from headrace.engine.checkpoints.weights import round_to_nearest
from headrace.engine.checkpoints.weights.array_rounding import ROWS, quantize_array


def weights(name: str) -> Tensor:
    generator = torch.Generator().manual_seed(len(name))
    numbers = torch.randn(ROWS + 7, 256, generator=generator)
    return {
        "normal": numbers,
        "zero": torch.zeros(3, 256),
        "tiny": numbers * 1e-9,
        "huge": numbers * 1e5,
        "positive": numbers.abs() + 1,
        "bfloat16": numbers.bfloat16().float(),
    }[name]


@pytest.mark.parametrize("name", ["normal", "zero", "tiny", "huge", "positive", "bfloat16"])
@pytest.mark.parametrize(("bits", "group"), [(4, 128), (4, 32), (8, 64), (8, 128)])
def test_the_bits_are_torchs(name: str, bits: int, group: int) -> None:
    weight = weights(name)
    expected = round_to_nearest.quantize(weight, bits, group, symmetric=False).arrays()
    found = quantize_array(weight.numpy(), bits, group)
    assert np.array_equal(found.codes, expected.codes)
    assert np.array_equal(found.scales, expected.scales)
    assert np.array_equal(found.zeros, expected.zeros)
