"""Bytes of tensors, as they travel between processes."""

import torch
from torch import Tensor


def bytes_of(numbers: Tensor) -> bytes:
    """Copies numbers of any type as bytes."""
    return numbers.contiguous().view(torch.uint8).cpu().numpy().tobytes()


def overwrite(place: Tensor, content: Tensor) -> None:
    """Copies bytes, uint8 [bytes] on the CPU, to numbers of any type."""
    place.copy_(content.view(place.dtype).view(place.shape))
