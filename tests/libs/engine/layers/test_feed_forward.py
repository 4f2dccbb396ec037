"""The activation of encoders: right, and the same for an element wherever it stands."""

import pytest
import torch
from torch.nn import functional

from headrace.engine.layers.feed_forward import gelu


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_gelu_equals_torch(dtype: torch.dtype) -> None:
    inputs = torch.linspace(-8, 8, 4001).to(dtype)
    torch.testing.assert_close(
        gelu(inputs), functional.gelu(inputs), atol=1e-6, rtol=1e-6 if dtype.itemsize > 2 else 1e-2
    )


def test_an_element_of_gelu_does_not_depend_on_where_it_stands() -> None:
    """torch's own fails this: the last elements go through another error function."""
    inputs = torch.randn(100_003, generator=torch.Generator().manual_seed(0)) * 3
    whole = gelu(inputs)
    for start in range(6):
        for length in (1, 2, 3, 5, 7, 13, 15, 31, 63, 100, 1001, 33_001, 65_537):
            part = slice(start, start + length)
            assert torch.equal(gelu(inputs[part].clone()), whole[part])
