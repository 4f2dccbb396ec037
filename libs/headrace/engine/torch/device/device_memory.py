"""Memory of a device, as much as is left of it, and as much as a computation takes."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import torch


class DeviceMemory(Protocol):
    """Memory that this process shares with others on one device."""

    def free_bytes(self) -> int:
        """Returns the unused bytes, including freed memory of this process."""
        ...

    def peak_bytes(self, compute: Callable[[], None]) -> int:
        """Returns the peak of the bytes that a computation takes beside what is held already."""
        ...


class CudaMemory:
    """Memory of a GPU."""

    def __init__(self, device: torch.device) -> None:
        self._device = device

    def free_bytes(self) -> int:
        # What loading has freed is still reserved by torch's allocator, and counts as taken.
        torch.cuda.empty_cache()
        return int(torch.cuda.mem_get_info(self._device)[0])

    def peak_bytes(self, compute: Callable[[], None]) -> int:
        torch.cuda.reset_peak_memory_stats(self._device)
        held = torch.cuda.memory_allocated(self._device)
        compute()
        torch.cuda.synchronize(self._device)
        return torch.cuda.max_memory_allocated(self._device) - held


def free_bytes_of(device: str) -> int:
    """Returns the unused bytes of a GPU, by its name for torch."""
    return CudaMemory(torch.device(device)).free_bytes()


@dataclass(frozen=True, slots=True)
class LaterMemory:
    """Memory that another model takes on the same device, which is loaded after this one: a draft model."""

    weight_bytes: int = 0
    block_bytes: int = 0
    """Bytes of each KV block, of which it has as many as this model."""


NOTHING_LATER = LaterMemory()
