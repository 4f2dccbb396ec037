"""Torch numbers in the form that the CPU kernels take."""

from torch import Tensor


def floats(tensor: Tensor) -> Tensor:
    """Returns the same numbers in contiguous fp32, without a copy if they already are."""
    return tensor.float().contiguous()
