"""Attention of encoders through torch: windows and rotation, on the device and in the precision of its inputs."""

import pytest
import torch
from torch.nn import functional

from headrace.engine.checkpoints.facts.rotary.rotary_angles import rotary_angles
from headrace.engine.torch.attention.torch_whole_attention import TorchWholeAttention

HEADS, HEAD = 2, 8
ANGLES = rotary_angles(HEAD, 100.0, None, 32)


def test_a_query_sees_a_window_on_either_side() -> None:
    attention = TorchWholeAttention(HEADS, HEAD, None, torch.float32, torch.device("cpu"), window=3)
    projected = torch.randn(9, 3 * HEADS * HEAD)
    attention.begin([9])
    found = attention.attend(projected)
    queries, keys, values = projected.view(9, 3, HEADS, HEAD).permute(1, 2, 0, 3)
    distances = torch.arange(9)[None] - torch.arange(9)[:, None]
    expected = functional.scaled_dot_product_attention(queries, keys, values, attn_mask=distances.abs() < 3)
    assert torch.allclose(found, expected.transpose(0, 1).reshape(9, -1), atol=1e-6)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_all_is_on_the_device_and_in_the_precision_of_the_inputs(dtype: torch.dtype) -> None:
    """Operations on torch's device without memory refuse operands from elsewhere."""
    device = torch.device("meta")
    attention = TorchWholeAttention(HEADS, HEAD, None, dtype, device, window=3, angles=ANGLES)
    attention.begin([4, 9, 9])
    found = attention.attend(torch.empty(22, 3 * HEADS * HEAD, dtype=dtype, device=device))
    assert (found.shape, found.dtype, found.device) == ((22, HEADS * HEAD), dtype, device)
