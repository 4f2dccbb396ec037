"""A copy from a device to the host that is made while the host does something else."""

from typing import Any

import torch
from numpy.typing import NDArray
from torch import Tensor


class HostCopy:
    """Numbers of a tensor in flight to the host, after what the device has to do before."""

    def __init__(self, tensor: Tensor) -> None:
        """Begins to copy a contiguous tensor. From a GPU it goes into pinned memory."""
        self._numbers = tensor
        self._event: torch.cuda.Event | None = None
        if tensor.device.type == "cuda":
            self._numbers = torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=True)
            self._numbers.copy_(tensor, non_blocking=True)
            self._event = torch.cuda.Event()  # type: ignore[no-untyped-call]
            self._event.record(torch.cuda.current_stream(tensor.device))

    def wait(self) -> NDArray[Any]:
        """Returns the numbers, once they are there."""
        if self._event is not None:
            self._event.synchronize()
        return self._numbers.numpy()
