"""Copies to a device that the host does not wait for."""

from typing import Any

import torch
from numpy.typing import NDArray
from torch import Tensor

from headrace.engine.torch.device.host_copy import HostCopy


def to_device(array: NDArray[Any], device: torch.device) -> Tensor:
    """Returns a contiguous array as a tensor on a device. To a GPU it goes from pinned memory, which torch keeps until
    the copy is over; on a CPU the memory stays the array's own."""
    tensor = torch.from_numpy(array)
    if device.type != "cuda":
        return tensor.to(device)
    return tensor.pin_memory().to(device, non_blocking=True)


def overwrite(target: Tensor, array: NDArray[Any]) -> None:
    """Overwrites a tensor of the same shape and type with an array, as `to_device` does."""
    tensor = torch.from_numpy(array)
    target.copy_(tensor.pin_memory() if target.device.type == "cuda" else tensor, non_blocking=True)


def from_device(tensor: Tensor) -> NDArray[Any]:
    """Returns a contiguous tensor as an array, once it is computed. From a GPU it comes into pinned memory."""
    return HostCopy(tensor).wait()
