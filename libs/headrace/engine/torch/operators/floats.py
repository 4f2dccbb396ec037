"""Numbers as the CPU kernels take them from torch."""

from torch import Tensor


def floats(tensor: Tensor) -> Tensor:
    """Returns the same numbers in contiguous fp32, in the same memory where they are so already."""
    return tensor.float().contiguous()
