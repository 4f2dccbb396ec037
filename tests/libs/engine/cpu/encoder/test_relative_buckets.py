"""Distances fall into the buckets that torch's operations give them."""

import numpy as np
import pytest
import torch

from headrace.engine.cpu.encoder.relative_buckets import relative_buckets
from headrace.engine.torch.layers.relative_bias import RelativeBias


@pytest.mark.parametrize("count", [4, 5, 8, 16, 20, 32, 48, 64, 300])
def test_buckets_are_those_of_torch(count: int) -> None:
    distances = np.arange(-2000, 2001)
    expected = RelativeBias(torch.arange(count).unsqueeze(1)).at_distances(torch.from_numpy(distances))
    assert relative_buckets(distances, count).tolist() == expected[0].tolist()
