"""Weights of a model, which can leave their device for the memory of its host, and come back."""

from collections.abc import Iterable, Iterator

import torch
from torch import Tensor

from headrace.engine.torch.device.current_device import on_device
from headrace.engine.torch.device.held_tensors import held_tensors

OFFLOADED = frozenset({"cuda"})
"""Kinds of devices with a memory of their own."""
PAGE_BYTES = 64 * 1024**2
"""Size of a piece of host memory. Torch pins memory in powers of two and keeps it for the next model, so pieces of one
size waste nothing."""


def offload_weights(owner: object, device: torch.device) -> "DeviceWeights | None":
    """Returns the weights that an object holds on a device. None: the device shares the memory of its host."""
    return DeviceWeights(held_tensors(owner), device) if device.type in OFFLOADED else None


class DeviceWeights:
    """Implements the Protocol of `offload.py` for storages of tensors on one device. The tensors stay, and have
    their numbers again after `restore`, at another address."""

    def __init__(self, tensors: Iterable[Tensor], device: torch.device) -> None:
        """Takes the storages of tensors, one that several share once. What is on another device, or in memory that
        torch cannot give back, stays where it is."""
        held = {tensor.untyped_storage().data_ptr(): tensor.untyped_storage() for tensor in tensors if tensor.numel()}
        self._storages = [one for one in held.values() if one.device.type == device.type and one.resizable()]
        self._sizes = [storage.nbytes() for storage in self._storages]
        self._device = device
        self._pages: list[Tensor] = []
        """Pieces of host memory with all storages, one after the other, while they are away."""

    @property
    def byte_count(self) -> int:
        """Size of all storages, in bytes."""
        return sum(self._sizes)

    @torch.inference_mode()
    def offload(self) -> None:
        """Copies all weights to the host and gives the memory of the device back. Raises MemoryError, and leaves them
        where they are, if the host has no room."""
        if self._pages or not self._storages:
            return
        with on_device(self._device):
            pages = [self._page() for _ in range(-(-self.byte_count // PAGE_BYTES))]
            for page, storage in self._pieces(pages):
                page.copy_(storage, non_blocking=True)
            self._wait()
            self._resize([0] * len(self._sizes))
            self._pages = pages

    @torch.inference_mode()
    def restore(self) -> None:
        """Brings all weights back. Raises torch.OutOfMemoryError, and leaves them on the host, if the device has no
        room."""
        if not self._pages:
            return
        with on_device(self._device):
            try:
                self._resize(self._sizes)
            except RuntimeError:
                self._resize([0] * len(self._sizes))
                raise
            for page, storage in self._pieces(self._pages):
                storage.copy_(page, non_blocking=True)
            self._wait()
            self._pages = []

    def _pieces(self, pages: list[Tensor]) -> Iterator[tuple[Tensor, Tensor]]:
        """Pairs of a part of a page and the part of a storage that belongs there, as bytes."""
        place = 0
        for storage, size in zip(self._storages, self._sizes, strict=True):
            content = torch.empty(0, dtype=torch.uint8, device=self._device).set_(storage)
            first = 0
            while first < size:
                page, offset = divmod(place, PAGE_BYTES)
                count = min(size - first, PAGE_BYTES - offset)
                yield pages[page][offset : offset + count], content[first : first + count]
                first, place = first + count, place + count

    def _page(self) -> Tensor:
        """Takes a piece of host memory, pinned for a GPU."""
        if self._device.type == "cuda":
            try:
                return torch.empty(PAGE_BYTES, dtype=torch.uint8, pin_memory=True)
            except RuntimeError:
                # The system pins less than it has: copies are slower from other memory, and as good.
                torch.cuda.synchronize(self._device)
        try:
            return torch.empty(PAGE_BYTES, dtype=torch.uint8)
        except RuntimeError as error:
            raise MemoryError(f"the host has no room for weights of {self.byte_count} bytes") from error

    def _resize(self, sizes: Iterable[int]) -> None:
        for storage, size in zip(self._storages, sizes, strict=True):
            storage.resize_(size)
        if self._device.type == "cuda":
            # Else torch keeps what it freed, in pieces that suit this model.
            torch.cuda.empty_cache()

    def _wait(self) -> None:
        if self._device.type == "cuda":
            torch.cuda.synchronize(self._device)
